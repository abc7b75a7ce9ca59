#pragma once

#include "launcher/process/spool.h"
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

/// ddprun's own stdout or stderr, shared by all workers and the launcher's own lines.
///
/// Blocking  never: a console that does not take bytes (Ctrl-S, a stuck pipe) gets a backlog, a mebibyte of
/// it in
///           memory and the rest on disk, and is fed when it is ready again.
/// Loss      only when no disk has room for the backlog; counted in `dropped_bytes`. Once nobody reads the
/// console any
///           more (EPIPE), what is written to it is forgotten: the workers do not notice.
/// Lines     a writer that follows another one in the middle of a line begins a new one.
/// Flags     the descriptor's own are left alone: our shell shares them. Pipes and terminals are opened anew.
class Console {
 public:
  /// `spool_directories` are where the backlog may go, the best place first.
  Console(boost::asio::io_context& io, int fd, std::vector<std::string> spool_directories);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Who wrote last; the launcher itself is kLauncher, streams count from 0.
  using Writer = int;
  static constexpr Writer kLauncher = -1;

  void write(Writer writer, std::string_view bytes);
  /// Whether `writer`'s next byte begins a line.
  [[nodiscard]] bool at_line_start(Writer writer) const { return !is_mid_line_ || writer != last_writer_; }

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  [[nodiscard]] bool is_null() const { return is_null_; }
  [[nodiscard]] bool has_backlog() const { return backlog_bytes() > 0; }
  [[nodiscard]] std::uint64_t backlog_bytes() const {
    return pending_.size() - pending_done_ + spool_.size();
  }
  [[nodiscard]] std::uint64_t dropped_bytes() const { return dropped_; }
  /// Grows with every byte the console took; tells a slow console from a stuck one.
  [[nodiscard]] std::uint64_t taken_bytes() const { return taken_; }
  /// Called from the io_context each time the backlog has become empty.
  void set_on_empty(std::function<void()> on_empty) { on_empty_ = std::move(on_empty); }
  void close();

  /// Whether two descriptors end in the same place: `2>&1`, or one terminal.
  static bool is_same_target(int a, int b);

 private:
  void put(std::string_view bytes);
  std::size_t try_write(std::string_view bytes);
  void keep(std::string_view bytes);
  void wait_writable();
  void feed();
  void refill_from_spool();

  boost::asio::posix::stream_descriptor descriptor_;  // not open when the target cannot be waited for
  int fd_;
  bool is_terminal_ = false;
  bool is_null_ = false;
  bool is_socket_ = false;
  bool is_polite_ = false;  // could not be opened anew: write little, and only when poll says so
  bool is_broken_ = false;
  bool is_waiting_ = false;
  bool is_mid_line_ = false;
  Writer last_writer_ = kLauncher;
  std::string pending_;
  std::size_t pending_done_ = 0;
  Spool spool_;
  std::uint64_t dropped_ = 0;
  std::uint64_t taken_ = 0;
  std::function<void()> on_empty_;
  Gate gate_;
};

}  // namespace ddprun::launcher
