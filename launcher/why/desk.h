#pragma once

#include "launcher/report/looks.h"
#include "rendezvous/base/alarm.h"
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
#include <string>
#include <string_view>

namespace ddprun::launcher::why {

/// How an answer reaches `ddprun why`, one in a line; nullopt: it is something else.
std::string to_text(const LookPart& part);
std::optional<LookPart> parse_look_part(std::string_view line);

/// The launcher's part of a `ddprun why` over several nodes: passes a question of this host on to the other nodes, and
/// their answers back; for a question of another node it has a process look at the ranks here, as long as that may take.
///
/// Bounded  one question of this host, the newest; one of others at a time, for ten seconds and as many bytes as it
///          allows: who asks meanwhile is told of no rank. What nobody reads waits up to eight mebibytes, and is then given up with its question.
/// Threads  none: the io_context's one thread, which waits for nothing.
class Desk final : public LookDesk {
 public:
  explicit Desk(boost::asio::io_context& io) : io_(io), asker_(io) {}
  ~Desk() override { close(); }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  void open(LookLine& line) override { line_ = &line; }
  void close() override;
  void asked_by(pid_t process, int descriptor) override;
  void wanted(std::uint64_t number, std::size_t most_bytes) override;
  void answered(const LookPart& part) override;

 private:
  /// A process that looks at the ranks of this node; destroyed: killed.
  struct Look {
    Look(boost::asio::io_context& io, UniqueFd process, int from, std::size_t most);
    ~Look();
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    UniqueFd pidfd;
    boost::asio::posix::stream_descriptor descriptor;
    std::size_t bytes_left;
    std::array<char, 16384> buffer{};
    Alarm deadline;
  };

  void read(std::uint64_t number);
  void end_look(std::uint64_t number);
  void say(const LookPart& part);
  void write();
  void forget_asker();

  boost::asio::io_context& io_;
  LookLine* line_ = nullptr;  ///< null: closed
  std::map<std::uint64_t, std::unique_ptr<Look>> looks_;
  boost::asio::posix::stream_descriptor asker_;
  std::uint64_t question_ = 0;      ///< the newest of this host
  std::uint64_t asker_number_ = 0;  ///< of whoever `asker_` leads to
  std::string to_write_;
  std::string writing_;  ///< is with asio
  Gate gate_;
};

}  // namespace ddprun::launcher::why
