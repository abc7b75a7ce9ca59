#pragma once

#include "launcher/output/file_writers.h"
#include "launcher/output/lost_output.h"
#include "launcher/output/spool.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A descriptor of whatever kind that takes bytes without ever holding up the loop.
///
/// Blocking  never. What a terminal, pipe or socket does not take (Ctrl-S, a reader that sleeps) waits, a
///           mebibyte in our memory and the rest in a Spool, and follows when it is ready again. Files of a
///           file system are written by the FileWriter's thread.
/// Bounds    `kMostWaiting` bytes wait, or what the limit on the size of files allows, or 8 MiB; what comes then is
///           dropped, whole writes, until half of them have gone. Who can wait does so while half of them wait
///           and still some are taken (`is_behind`): then a reader that is slow gets all, and only one that is
///           stuck loses any.
/// Loss      is counted and never silent: see `set_on_trouble` and `loss`.
/// Flags     the descriptor's own are left alone: our shell shares them. Pipes and terminals are opened anew.
class Outlet {
 public:
  static constexpr std::uint64_t kMostWaiting = Spool::kMostRoom;

  /// `fd` is borrowed; `name` is what losses are told by. `files` outlives it.
  Outlet(boost::asio::io_context& io, FileWriters& files, int fd, std::string name);
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void write(std::string_view bytes);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  [[nodiscard]] bool is_null() const { return kind_ == Kind::kNull; }
  /// Files aside: what waits for them is FileWriter's.
  [[nodiscard]] bool has_backlog() const { return backlog_bytes() > 0; }
  [[nodiscard]] std::uint64_t backlog_bytes() const {
    return pending_.size() - pending_done_ + spool_.size();
  }
  /// Grows with every byte that was taken; tells a slow reader from a stuck one.
  [[nodiscard]] std::uint64_t taken_bytes() const { return taken_; }
  /// Half of what may wait does, and in the last seconds some was taken.
  [[nodiscard]] bool is_behind() const {
    return !is_broken_ && !is_stuck_ && is_waited_for_ && backlog_bytes() > most_waiting() / 2;
  }
  /// False: nobody shall wait for room, as of a job that is told to end.
  void set_waited_for(bool is_waited_for);
  /// Calls `go_on` once, from the io_context, when it is not behind any more, or has lost its reader.
  void await_room(std::function<void()> go_on);
  /// What was lost so far; files aside.
  [[nodiscard]] std::optional<LostOutput> loss() const;

  /// Called from the io_context each time the backlog has become empty.
  void set_on_empty(std::function<void()> on_empty) { on_empty_ = std::move(on_empty); }
  /// Called with a sentence when bytes are dropped for the first time because too many wait.
  void set_on_trouble(std::function<void(const std::string&)> on_trouble);
  /// Called once when a pipe or socket has no reader any more.
  void set_on_gone(std::function<void()> on_gone) { on_gone_ = std::move(on_gone); }
  /// Nobody reads it any more, and nobody will.
  [[nodiscard]] bool has_no_reader() const { return has_no_reader_; }
  /// What waits is lost, and so is what is written from now on: nobody took it in time.
  void abandon();
  /// Lets go of the loop; what is written from now on is lost.
  void close();

 private:
  enum class Kind { kNull, kFile, kStream };

  void open_stream(int fd);
  std::size_t try_write(std::string_view bytes);
  void keep(std::string_view bytes);
  [[nodiscard]] std::uint64_t most_waiting() const;
  [[nodiscard]] bool has_spool() const;
  /// `meanwhile` is said when it is the first time.
  void drop(std::uint64_t bytes, std::string why, std::string_view meanwhile);
  void note_end(int error);
  void give_up(std::uint64_t more);
  void wait_writable();
  void feed();
  void look_whether_stuck();
  void let_go_on();

  boost::asio::posix::stream_descriptor descriptor_;  // kStream
  FileWriter::Handle file_;                           // kFile
  std::string name_;
  Kind kind_ = Kind::kStream;
  bool is_terminal_ = false;
  bool is_socket_ = false;
  bool is_polite_ = false;  // could not be opened anew: write little, and only when poll says so
  bool is_broken_ = false;
  bool has_no_reader_ = false;
  bool is_waiting_ = false;
  bool is_dropping_ = false;
  bool is_stuck_ = false;
  bool is_waited_for_ = true;
  std::string pending_;
  std::size_t pending_done_ = 0;
  Spool spool_;
  LostOutput lost_;
  std::uint64_t taken_ = 0;
  std::uint64_t taken_before_ = 0;  // at the last look whether it is stuck
  std::vector<std::function<void()>> awaiting_room_;
  Alarm patience_;
  std::function<void()> on_empty_;
  std::function<void()> on_gone_;
  std::function<void(const std::string&)> on_trouble_;
  Gate gate_;
};

}  // namespace ddprun::launcher
