#include "launcher/process/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kMemoryBacklog = 1024 * 1024;
constexpr std::size_t kSpoolPiece = 256 * 1024;

UniqueFd open_anew(int fd) {
  return UniqueFd(
      ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

bool would_block(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

}  // namespace

Console::Console(boost::asio::io_context& io, int fd, std::vector<std::string> spool_directories)
    : descriptor_(io), fd_(fd), spool_(std::move(spool_directories)) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    is_broken_ = true;
    return;
  }
  is_terminal_ = ::isatty(fd) == 1;
  is_null_ = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
  is_socket_ = S_ISSOCK(status.st_mode);
  const bool can_wait = S_ISFIFO(status.st_mode) || is_socket_ || is_terminal_;
  if (!can_wait) return;  // a file is always ready
  UniqueFd own = is_socket_ ? UniqueFd() : open_anew(fd);
  is_polite_ = !own && !is_socket_;
  if (!own) own.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own) return;
  fd_ = own.get();
  descriptor_.assign(own.release());
}

Console::~Console() = default;

void Console::close() {
  gate_.close();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
  is_broken_ = true;
}

bool Console::is_same_target(int a, int b) {
  struct stat left {};
  struct stat right {};
  if (::fstat(a, &left) != 0 || ::fstat(b, &right) != 0) return false;
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

void Console::write(Writer writer, std::string_view bytes) {
  if (bytes.empty()) return;
  if (is_mid_line_ && writer != last_writer_) put("\n");
  put(bytes);
  last_writer_ = writer;
  is_mid_line_ = bytes.back() != '\n' && bytes.back() != '\r';
}

void Console::put(std::string_view bytes) {
  if (is_broken_) return;
  if (!has_backlog()) bytes.remove_prefix(try_write(bytes));
  if (bytes.empty() || is_broken_) return;
  keep(bytes);
  wait_writable();
}

// Writes what can be written now and returns how much that was.
std::size_t Console::try_write(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    std::size_t piece = bytes.size() - done;
    if (is_polite_) {
      pollfd ready{fd_, POLLOUT, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      piece = std::min<std::size_t>(piece, is_terminal_ ? 128 : PIPE_BUF);
    }
    const ssize_t written = is_socket_ ? ::send(fd_, bytes.data() + done, piece, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : ::write(fd_, bytes.data() + done, piece);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (!would_block(errno) && errno != ENOSPC) is_broken_ = true;
      if (errno == ENOSPC) {
        dropped_ += bytes.size() - done;
        return bytes.size();
      }
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  taken_ += done;
  return done;
}

// Behind everything that waits already: in memory while that is little, on disk after that.
void Console::keep(std::string_view bytes) {
  if (spool_.size() > 0 || pending_.size() - pending_done_ + bytes.size() > kMemoryBacklog) {
    dropped_ += bytes.size() - spool_.push(bytes);
    return;
  }
  pending_.erase(0, pending_done_);
  pending_done_ = 0;
  pending_.append(bytes);
}

void Console::wait_writable() {
  if (is_waiting_ || !descriptor_.is_open()) return;
  is_waiting_ = true;
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                         gate_.pass([this](boost::system::error_code error) {
                           if (error) return;
                           is_waiting_ = false;
                           feed();
                         }));
}

void Console::feed() {
  while (has_backlog()) {
    if (pending_.size() == pending_done_) refill_from_spool();
    pending_done_ += try_write(std::string_view(pending_).substr(pending_done_));
    if (is_broken_) {
      spool_.clear();
      break;
    }
    if (pending_done_ < pending_.size()) return wait_writable();
  }
  pending_.clear();
  pending_.shrink_to_fit();
  pending_done_ = 0;
  if (on_empty_) on_empty_();
}

void Console::refill_from_spool() {
  const std::uint64_t before = spool_.size();
  pending_ = spool_.pop(kSpoolPiece);
  pending_done_ = 0;
  dropped_ += before - spool_.size() - pending_.size();  // what cannot be read back
}

}  // namespace ddprun::launcher
