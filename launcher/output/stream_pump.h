#pragma once

#include "launcher/output/console.h"
#include "launcher/output/line_cutter.h"
#include "launcher/output/log_file.h"
#include "launcher/output/tail_buffer.h"
#include "launcher/output/traceback_scanner.h"
#include "rendezvous/base/gate.h"
#include "rendezvous/base/unique_fd.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Where the bytes of one stream of one worker go. Everything pointed to outlives the pump.
struct StreamRoutes {
  std::optional<LogFile> file;
  TailBuffer* tail = nullptr;
  TracebackScanner* scanner = nullptr;
  Console* console = nullptr;
  Console::Writer writer = 0;
  std::string prefix;
  /// The only writer of its console: bytes are passed on as they come, not line by line.
  bool is_alone = false;
  /// Takes whole lines instead of the console (--fold).
  std::function<void(std::string_view block)> fold;
  /// Takes whole lines, with their prefixes, instead of the console (--log-funnel); false: it does not.
  std::function<bool(std::string_view block)> funnel;
  /// Lines with any of these words are copied, prefix and all, to `filtered`.
  const std::vector<std::string>* filter_words = nullptr;
  LogFile* filtered = nullptr;
};

/// Reads one stream of a worker as soon as it writes and hands every byte on, in order: to its log file, to
/// the console, to the tail kept for the report. Waits for none of them, so no worker is held up by a stuck console or
/// by a disk; but for a console that is far behind and still takes bytes (Outlet::is_behind), as the worker itself
/// would.
class StreamPump {
 public:
  StreamPump(boost::asio::io_context& io, UniqueFd source, StreamRoutes routes, std::span<char> scratch);

  void start();
  /// Reads what is there now. After the worker has ended, that is all it wrote.
  void drain();
  /// Drains, lets an incomplete last line out and closes: whoever still holds the other end is no longer
  /// listened to.
  void finish();
  /// Lets an incomplete line out that has waited for its end: a prompt, a progress bar.
  void flush_line();
  [[nodiscard]] bool is_holding_line() const { return cutter_.is_holding(); }
  [[nodiscard]] bool is_open() const { return source_.is_open(); }
  /// Called when `is_holding_line` may have become true.
  void set_on_held(std::function<void()> on_held) { on_held_ = std::move(on_held); }
  /// Whether what it reads goes to `console` and nowhere else.
  [[nodiscard]] bool is_only_for(const Console& console) const {
    return routes_.console == &console && !routes_.file && !routes_.funnel && routes_.filtered == nullptr;
  }
  /// Reads no more: the worker's next write fails with EPIPE.
  void hang_up() { close(); }
  /// For copy_window_size; -1 once closed.
  [[nodiscard]] int fd() { return source_.is_open() ? source_.native_handle() : -1; }

 private:
  enum class Read { kSome, kNothingNow, kEnd };
  void wait_readable();
  Read read_once();
  void pass_on(std::string_view bytes);
  void pass_block(std::string_view block);
  void close();

  boost::asio::posix::stream_descriptor source_;
  StreamRoutes routes_;
  std::span<char> scratch_;
  LineCutter cutter_;
  std::function<void()> on_held_;
  std::uint64_t read_bytes_ = 0;
  Gate gate_;
};

}  // namespace ddprun::launcher
