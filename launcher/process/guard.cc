#include "launcher/process/guard.h"

#include "launcher/process/guard_message.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr const char* kTitle = "job-guard";

// Writes our name over the command line that `ps` shows: arg_start and arg_end are fields 48 and 49 of stat.
void set_command_line(const std::string& title) {
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return;
  std::istringstream fields(text.substr(close + 1));
  std::vector<std::string> words;
  for (std::string word; fields >> word;) words.push_back(word);
  constexpr std::size_t kArgStart = 48 - 3;
  if (words.size() <= kArgStart + 1) return;
  auto* const start = reinterpret_cast<char*>(std::strtoull(words[kArgStart].c_str(), nullptr, 10));
  auto* const end = reinterpret_cast<char*>(std::strtoull(words[kArgStart + 1].c_str(), nullptr, 10));
  if (start == nullptr || end <= start) return;
  const auto size = static_cast<std::size_t>(end - start);
  std::memset(start, 0, size);
  std::memcpy(start, title.data(), std::min(title.size(), size - 1));
}

void leave_the_launcher(int socket) {
  ::setsid();
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &ignore, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::prctl(PR_SET_NAME, kTitle);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  const auto kept = static_cast<unsigned>(socket);
  if (kept > 3) ::close_range(3, kept - 1, 0);
  ::close_range(kept + 1, ~0U, 0);
  [[maybe_unused]] const int moved = ::chdir("/");
}

void note(const GuardMessage& message, JobMarks& marks) {
  switch (message.kind) {
    case GuardMessage::Kind::kSessionBegan:
      marks.sessions.insert(message.pid);
      marks.seen.insert(message.pid);
      return;
    case GuardMessage::Kind::kSessionEnded:
      marks.sessions.erase(message.pid);
      return;
  }
}

// The guard's whole life: remember the sessions until the launcher's end of the socket closes.
[[noreturn]] void run_guard(int socket, JobMarks marks) {
  leave_the_launcher(socket);
  set_command_line(fmt::format("{} {}", kTitle, marks.tag));
  GuardMessage message{};
  for (;;) {
    const ssize_t count = ::recv(socket, &message, sizeof message, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof message) break;
    note(message, marks);
  }
  sweep_job(std::move(marks));
  ::_exit(0);
}

}  // namespace

Result<Guard> Guard::start(const JobMarks& marks) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return os_error("cannot start the guard process: socketpair", errno);
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  // With the thread of file_writer.h alive, which holds nothing that the child needs.
  const pid_t pid = ::fork();
  if (pid < 0) return os_error("cannot start the guard process: fork", errno);
  if (pid == 0) {
    ours.reset();
    run_guard(theirs.get(), marks);
  }
  return Guard(pid, std::move(ours));
}

Guard::Guard(Guard&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), socket_(std::move(other.socket_)) {}

Guard& Guard::operator=(Guard&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, 0);
    socket_ = std::move(other.socket_);
  }
  return *this;
}

Guard::~Guard() { end(); }

void Guard::end() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

void Guard::tell(const GuardMessage& message) { tell_guard(socket_.get(), message); }

Result<GuardPair> GuardPair::start(const JobMarks& marks) {
  Result<Guard> first = Guard::start(marks);
  if (!first) return first.error();
  Result<Guard> second = Guard::start(marks);
  if (!second) return second.error();
  return GuardPair({std::move(*first), std::move(*second)});
}

bool GuardPair::has(pid_t pid) const {
  return std::any_of(guards_.begin(), guards_.end(),
                     [pid](const Guard& guard) { return guard.pid() == pid; });
}

void GuardPair::tell(const GuardMessage& message) {
  for (Guard& guard : guards_) guard.tell(message);
}

Result<void> GuardPair::replace(pid_t pid, const JobMarks& marks) {
  for (Guard& guard : guards_) {
    if (guard.pid() != pid) continue;
    guard.forget();
    Result<Guard> next = Guard::start(marks);
    if (!next) return next.error();
    guard = std::move(*next);
  }
  return ok();
}

}  // namespace ddprun::launcher
