#include "launcher/process/guard.h"

#include "launcher/process/guard_message.h"
#include "launcher/process/job_sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

// The guard's whole life: remember the sessions until the launcher's end of the socket closes.
[[noreturn]] void run_guard(int socket, const std::string& job_tag, std::set<pid_t> sessions) {
  leave_the_launcher(socket);
  set_command_line(fmt::format("{} {}", kTitle, job_tag));
  GuardMessage message{};
  for (;;) {
    const ssize_t count = ::recv(socket, &message, sizeof message, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof message) break;
    if (message.kind == GuardMessage::Kind::kSessionBegan) {
      sessions.insert(message.pid);
    } else {
      sessions.erase(message.pid);
    }
  }
  sweep_job(job_tag, sessions);
  ::_exit(0);
}

}  // namespace

Result<Guard> Guard::start(const std::string& job_tag, const std::set<pid_t>& sessions) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return os_error("cannot start the guard process: socketpair", errno);
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return os_error("cannot start the guard process: fork", errno);
  if (pid == 0) {
    ours.reset();
    run_guard(theirs.get(), job_tag, sessions);
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

void Guard::session_ended(pid_t worker) {
  tell_guard(socket_.get(), {GuardMessage::Kind::kSessionEnded, worker});
}

}  // namespace ddprun::launcher
