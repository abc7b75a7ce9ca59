#include "launcher/output/outlet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kMemoryBacklog = 1024 * 1024;
/// Where files may not be so large, it waits in memory: what the workers have written already finds room behind half.
constexpr std::size_t kLeastWaiting = 8 * 1024 * 1024;
constexpr std::size_t kSpoolPiece = 256 * 1024;
constexpr std::chrono::seconds kPatience{5};

// O_NONBLOCK belongs to the open file, which a shell and other programs share with us: set on `fd` itself, it would
// make their writes fail. What is opened anew has flags of its own.
UniqueFd open_anew(int fd) {
  return UniqueFd(
      ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

UniqueFd duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

bool would_block(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

}  // namespace

Outlet::Outlet(boost::asio::io_context& io, FileWriters& files, int fd, std::string name)
    : descriptor_(io), name_(std::move(name)), patience_(io) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    note_end(errno);
    return;
  }
  is_terminal_ = ::isatty(fd) == 1;
  is_socket_ = S_ISSOCK(status.st_mode);
  if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)) {
    kind_ = Kind::kNull;
  } else if (S_ISFIFO(status.st_mode) || is_socket_ || is_terminal_) {
    open_stream(fd);
  } else {
    kind_ = Kind::kFile;
    file_ = files.add(duplicate(fd), name_, FileWriter::Gaps::kUnmarked);
  }
}

void Outlet::open_stream(int fd) {
  UniqueFd own = is_socket_ ? UniqueFd() : open_anew(fd);
  is_polite_ = !own && !is_socket_;
  if (!own) own = duplicate(fd);
  if (!own) return note_end(errno);
  descriptor_.assign(own.release());
}

void Outlet::set_on_trouble(std::function<void(const std::string&)> on_trouble) {
  if (kind_ == Kind::kFile) file_.set_on_trouble(on_trouble);
  on_trouble_ = std::move(on_trouble);
}

void Outlet::abandon() {
  is_broken_ = true;
  lost_.why = "nobody took it in time";
  give_up(0);
}

void Outlet::close() {
  gate_.close();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
  is_broken_ = true;
  on_gone_ = nullptr;
  patience_.cancel();
  awaiting_room_.clear();
}

void Outlet::await_room(std::function<void()> go_on) {
  awaiting_room_.push_back(std::move(go_on));
  if (awaiting_room_.size() > 1) return;
  taken_before_ = taken_;
  patience_.set_after(kPatience, [this] { look_whether_stuck(); });
}

void Outlet::set_waited_for(bool is_waited_for) {
  is_waited_for_ = is_waited_for;
  if (!is_waited_for) let_go_on();
}

void Outlet::look_whether_stuck() {
  is_stuck_ = taken_ == taken_before_;
  if (is_stuck_) return let_go_on();
  taken_before_ = taken_;
  patience_.set_after(kPatience, [this] { look_whether_stuck(); });
}

void Outlet::let_go_on() {
  patience_.cancel();
  for (const std::function<void()>& go_on : std::exchange(awaiting_room_, {})) go_on();
}

void Outlet::write(std::string_view bytes) {
  if (kind_ == Kind::kNull) return;
  if (kind_ == Kind::kFile) return file_.write(bytes);
  if (!is_broken_ && !has_backlog()) bytes.remove_prefix(try_write(bytes));
  if (bytes.empty()) return;
  if (is_broken_) return give_up(bytes.size());
  keep(bytes);
  wait_writable();
}

// Writes what can be written now and returns how much that was.
std::size_t Outlet::try_write(std::string_view bytes) {
  const int fd = descriptor_.native_handle();
  std::size_t done = 0;
  while (done < bytes.size()) {
    std::size_t piece = bytes.size() - done;
    if (is_polite_) {
      pollfd ready{fd, POLLOUT, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      piece = std::min<std::size_t>(piece, is_terminal_ ? 128 : PIPE_BUF);
    }
    const ssize_t written = is_socket_ ? ::send(fd, bytes.data() + done, piece, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : ::write(fd, bytes.data() + done, piece);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (!would_block(errno)) note_end(errno);
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  taken_ += done;
  if (done > 0) is_stuck_ = false;
  return done;
}

std::uint64_t Outlet::most_waiting() const {
  return has_spool() ? std::min(kMostWaiting, spool_.room()) : kLeastWaiting;
}

bool Outlet::has_spool() const { return spool_.room() > kLeastWaiting; }

// Behind everything that waits already: in memory while that is little, in the spool after that.
void Outlet::keep(std::string_view bytes) {
  if (is_dropping_ && backlog_bytes() <= most_waiting() / 2) is_dropping_ = false;
  if (is_dropping_ || backlog_bytes() + bytes.size() > most_waiting()) {
    is_dropping_ = true;
    const std::string most = fmt::format("{} MiB", most_waiting() >> 20);
    return drop(bytes.size(), fmt::format("nobody read it, and {} waited already", most),
                most + " wait already");
  }
  const bool is_much = spool_.size() > 0 || pending_.size() - pending_done_ + bytes.size() > kMemoryBacklog;
  if (has_spool() && is_much) {
    const std::size_t kept = spool_.push(bytes);
    if (kept < bytes.size())
      drop(bytes.size() - kept, "no memory for what waited", "there is no memory for what waits");
    return;
  }
  pending_.erase(0, pending_done_);
  pending_done_ = 0;
  pending_.append(bytes);
}

void Outlet::drop(std::uint64_t bytes, std::string why, std::string_view meanwhile) {
  const bool is_first = lost_.bytes == 0;
  lost_.bytes += bytes;
  lost_.why = std::move(why);
  if (is_first && on_trouble_) {
    on_trouble_(fmt::format("{} is read too slowly, and {}; what comes now is dropped, and counted", name_,
                            meanwhile));
  }
}

// It will not take anything any more.
void Outlet::note_end(int error) {
  is_broken_ = true;
  has_no_reader_ = error == EPIPE || error == ECONNRESET;
  const std::string why = has_no_reader_ ? "its reader is gone" : std::strerror(error);
  lost_.why = lost_.bytes == 0 ? why : fmt::format("{}; then: {}", lost_.why, why);
}

// What waits, and `more`, goes nowhere.
void Outlet::give_up(std::uint64_t more) {
  lost_.bytes += backlog_bytes() + more;
  spool_.clear();
  pending_.clear();
  pending_done_ = 0;
  if (has_no_reader_ && on_gone_) std::exchange(on_gone_, nullptr)();
  let_go_on();
}

std::optional<LostOutput> Outlet::loss() const {
  return lost_.bytes == 0 ? std::nullopt : std::optional(LostOutput{name_, lost_.bytes, lost_.why});
}

void Outlet::wait_writable() {
  if (is_waiting_ || !descriptor_.is_open()) return;
  is_waiting_ = true;
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                         gate_.pass([this](boost::system::error_code error) {
                           if (error) return;
                           is_waiting_ = false;
                           feed();
                         }));
}

void Outlet::feed() {
  while (has_backlog()) {
    if (pending_.size() == pending_done_) {
      pending_ = spool_.pop(kSpoolPiece);
      pending_done_ = 0;
    }
    pending_done_ += try_write(std::string_view(pending_).substr(pending_done_));
    if (is_broken_) {
      give_up(0);
      break;
    }
    if (!is_behind()) let_go_on();  // piece by piece, as a pipe does
    if (pending_done_ < pending_.size()) return wait_writable();
  }
  pending_.clear();
  pending_.shrink_to_fit();
  pending_done_ = 0;
  if (on_empty_) on_empty_();
}

}  // namespace ddprun::launcher
