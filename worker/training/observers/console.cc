#include "worker/training/observers/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>

namespace ddprun::training {
namespace {

constexpr auto kDrawInterval = std::chrono::milliseconds(100);
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr std::size_t kUsualColumns = 80;

/// What cannot be written is no reason to stop training. False: nobody reads it any more.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return errno != EPIPE;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

/// Where the live line is drawn: under ddprun stdout and stderr are two terminals, and what goes through one
/// may overtake the other.
int live_fd() { return is_terminal(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO; }

/// Asked at every draw: the window may change.
std::size_t terminal_columns(int fd) {
  winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

}  // namespace

Console::Console(Speaker speaker, const std::string& progress_mode, const Clock& clock)
    : clock_(clock),
      speaks_(speaker == Speaker::kRankZero),
      is_live_(speaks_ &&
               (progress_mode == "always" || (progress_mode == "auto" && is_terminal(STDERR_FILENO)))) {}

Console::~Console() { clear_progress(); }

void Console::line(const std::string& text) {
  if (!speaks_) return;
  clear_progress();
  if (write_all(STDOUT_FILENO, text + "\n") || !has_reader_) return;
  has_reader_ = false;
  warning("nobody reads stdout any more; the training goes on");
}

void Console::warning(const std::string& text) {
  if (!speaks_) return;
  clear_progress();
  write_all(STDERR_FILENO, "ddprun-worker: " + text + "\n");
}

bool Console::wants_progress() const { return is_live_ && clock_.now() >= next_draw_; }

void Console::progress(const LiveLine& live) {
  if (!is_live_) return;
  // The last column stays free: a terminal that is full to the edge may wrap.
  const std::size_t columns = terminal_columns(live_fd()) - 1;
  write_all(live_fd(), fmt::format("{}{}", kClearLine, format_live_line(live, columns)));
  is_drawn_ = true;
  next_draw_ = clock_.now() + kDrawInterval;
}

void Console::clear_progress() {
  if (is_drawn_) write_all(live_fd(), kClearLine);
  is_drawn_ = false;
}

}  // namespace ddprun::training
