#pragma once

#include "launcher/report/look_desk.h"
#include "launcher/why/desk/beside.h"
#include "launcher/why/desk/numbers_process.h"
#include "launcher/why/desk/quiet_since.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/unique_fd.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// How an answer reaches `ddprun why` and `ddprun ps --watch`, one in a line; nullopt: it is something else.
std::string to_text(const LookAnswer& part);
std::optional<LookAnswer> parse_look_answer(std::string_view line);

/// The launcher's part of a `ddprun why` or `ddprun ps --watch` over several nodes: passes a question of this host on
/// to the other nodes, and their answers back; for a question of another node it has a process look at the ranks here,
/// as long as that may take.
///
/// Bounded  one question of each kind of this host: who asks for numbers while one is under way hears what is
///          answered to it, eight at most; another `ddprun why` waits until the first is answered, and asks again.
///          One look for other nodes at a time, for ten seconds and as many bytes as the first of them allows: who
///          asks meanwhile hears the same, 64 at most, for nodes ask at one moment when a time-out is over. What nobody
///          reads waits up to eight mebibytes, and is then given up with its question.
/// Threads  none: the io_context's one thread, which waits for nothing.
class Desk final : public LookDesk {
 public:
  /// `numbers` is what `ddprun ps --watch` of another node is told; null: nothing. `quiet` has to outlive it.
  Desk(boost::asio::io_context& io, NumbersWork numbers, const QuietSince& quiet);
  ~Desk() override { close(); }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  void open(LookLine& line) override { line_ = &line; }
  void close() override;
  void asked_by(pid_t process, int descriptor, LookKind kind) override;
  void wanted(std::uint64_t number, std::size_t most_bytes, LookKind kind) override;
  void answered(const LookAnswer& part) override;

 private:
  /// A process that looks at the ranks of this node.
  struct Look {
    Look(boost::asio::io_context& io, Beside started);

    Beside process;
    boost::asio::posix::stream_descriptor descriptor;
    std::string said;
    std::map<std::uint64_t, std::size_t> bytes_left;  ///< by the number of each question that hears it
    std::array<char, 16384> buffer{};
    Alarm deadline;
  };

  /// Who asks on this host.
  struct Asker {
    explicit Asker(boost::asio::io_context& io) : pipe(io) {}

    boost::asio::posix::stream_descriptor pipe;
    pid_t process = 0;
    int descriptor = -1;         ///< the process's
    std::uint64_t question = 0;  ///< its number
    std::uint64_t turn = 0;      ///< grows with whoever `pipe` leads to
    std::string to_write;
    std::string writing;  ///< is with asio
  };
  using AskerPtr = std::shared_ptr<Asker>;

  /// A question of this host, and what has come of it.
  struct HostQuestion {
    std::uint64_t number = 0;
    TimePoint began;
    std::set<std::uint64_t> silent{};  ///< nodes that have not said the last word
    bool are_all_named = false;
    bool is_over = true;

    void take(const LookAnswer& part);
    /// Its answers still come, and it is not older than that.
    [[nodiscard]] bool is_under_way(Duration most) const;
  };

  void look(std::uint64_t number, std::size_t most_bytes);
  bool begin_look(std::size_t most_bytes);
  void read();
  void tell(std::uint64_t number, std::string_view text);
  void end_look();
  void numbers_asked_by(pid_t process, int descriptor, UniqueFd pipe);
  void numbers_answered(const LookAnswer& part);
  void ask(const AskerPtr& asker, LookKind kind);
  void say(const AskerPtr& asker, const std::string& text);
  void write(const AskerPtr& asker);
  static void forget(Asker& asker);

  boost::asio::io_context& io_;
  const QuietSince& quiet_;
  LookLine* line_ = nullptr;  ///< null: closed
  std::unique_ptr<Look> look_;
  std::uint64_t look_turn_ = 0;  ///< of look_
  NumbersProcess numbers_;
  AskerPtr why_asker_;
  std::vector<AskerPtr> numbers_askers_;
  HostQuestion why_question_;
  HostQuestion numbers_question_;
  std::string numbers_said_;    ///< of the answers to that
  std::uint64_t question_ = 0;  ///< the newest of this host
  Gate gate_;
};

}  // namespace ddprun::launcher::why
