#pragma once

#include "launcher/output/outlet.h"

#include <boost/asio/io_context.hpp>

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// ddprun's own stdout or stderr, shared by all workers and the launcher's own lines: an Outlet (which see
/// for what happens when it takes no bytes) that keeps the lines of its writers apart. A writer that follows
/// another one in the middle of a line begins a new one.
class Console {
 public:
  Console(boost::asio::io_context& io, FileWriters& files, int fd, std::string name)
      : outlet_(io, files, fd, std::move(name)) {}

  /// Who wrote last; the launcher itself is kLauncher, streams count from 0.
  using Writer = int;
  static constexpr Writer kLauncher = -1;

  void write(Writer writer, std::string_view bytes);
  /// Whether `writer`'s next byte begins a line.
  [[nodiscard]] bool at_line_start(Writer writer) const { return !is_mid_line_ || writer != last_writer_; }

  [[nodiscard]] Outlet& outlet() { return outlet_; }
  [[nodiscard]] bool is_terminal() const { return outlet_.is_terminal(); }
  [[nodiscard]] bool is_null() const { return outlet_.is_null(); }
  [[nodiscard]] std::uint64_t backlog_bytes() const { return outlet_.backlog_bytes(); }

  /// Whether two descriptors end in the same place: `2>&1`, or one terminal.
  static bool is_same_target(int a, int b);

 private:
  Outlet outlet_;
  bool is_mid_line_ = false;
  Writer last_writer_ = kLauncher;
};

}  // namespace ddprun::launcher
