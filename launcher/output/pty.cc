#include "launcher/output/pty.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace ddprun::launcher {

Result<Pty> open_pty(PtyUse use, int like_fd) {
  UniqueFd our_end(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!our_end || ::grantpt(our_end.get()) != 0 || ::unlockpt(our_end.get()) != 0) {
    return os_error("cannot open a pseudo-terminal", errno);
  }
  UniqueFd worker_end(::ioctl(our_end.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!worker_end) return os_error("cannot open the worker's end of a pseudo-terminal", errno);
  termios settings{};
  ::tcgetattr(worker_end.get(), &settings);
  if (use == PtyUse::kOutput) ::cfmakeraw(&settings);
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  ::tcsetattr(worker_end.get(), TCSANOW, &settings);
  copy_window_size(like_fd, our_end.get());
  return Pty{std::move(our_end), std::move(worker_end)};
}

void copy_window_size(int like_fd, int pty_fd) {
  winsize size{};
  if (::ioctl(like_fd, TIOCGWINSZ, &size) == 0) ::ioctl(pty_fd, TIOCSWINSZ, &size);
}

std::size_t terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::size_t terminal_rows(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

bool is_in_background_of(int fd) {
  const pid_t foreground = ::tcgetpgrp(fd);
  return foreground > 0 && foreground != ::getpgrp();
}

KeyTerminal::KeyTerminal(int fd, InterruptKey interrupt) : fd_(fd) {
  termios settings{};
  if (::tcgetattr(fd, &settings) != 0) return;
  before_ = settings;
  ours_ = settings;
  ::cfmakeraw(&ours_);
  ours_.c_oflag = settings.c_oflag;
  ours_.c_lflag |= ISIG;
  if (interrupt == InterruptKey::kWorkers) ours_.c_cc[VINTR] = _POSIX_VDISABLE;
  enter();
}

KeyTerminal::~KeyTerminal() { leave(); }

void KeyTerminal::leave() const {
  if (before_) ::tcsetattr(fd_, TCSADRAIN, &*before_);
}

void KeyTerminal::enter() const {
  if (before_) ::tcsetattr(fd_, TCSADRAIN, &ours_);
}

}  // namespace ddprun::launcher
