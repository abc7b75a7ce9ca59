#include "worker/commands/smoke_child.h"

#include "rendezvous/base/proc_stat.h"
#include "rendezvous/base/read_text.h"
#include <ddprun/exception.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace ddprun::commands {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostKept = std::size_t{1} << 20;
constexpr std::chrono::seconds kPatience{10};  ///< between SIGTERM and SIGKILL
constexpr std::chrono::seconds kLeftovers{5};  ///< guards and helpers need a moment

[[noreturn]] void fail(const std::string& what) {
  throw Exception(ErrorCode::kOs, fmt::format("{}: {}", what, std::strerror(errno)));
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  return set;
}

/// Appends what is there; false at the end.
bool read_some(int fd, std::string& text) {
  std::array<char, 16384> buffer{};
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  text.append(buffer.data(), static_cast<std::size_t>(got));
  if (text.size() > kMostKept) text.erase(0, text.size() - kMostKept);
  return got > 0;
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<long>(0, std::min<long>(left + 1, 1'000'000)));
}

/// Processes whose parent this one is, with their names.
std::vector<std::pair<pid_t, std::string>> own_children() {
  std::vector<std::pair<pid_t, std::string>> children;
  for (const std::string& name : names_in("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_text("/proc/" + name + "/stat");
    if (stat_number(stat, 4) != static_cast<std::uint64_t>(::getpid()) || stat_field(stat, 3) == "Z")
      continue;
    const std::size_t open = stat.find('(');
    children.emplace_back(std::stoi(name), stat.substr(open + 1, stat.rfind(')') - open - 1));
  }
  return children;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

struct SmokeChildren::Pipes {
  UniqueFd out, err, files;
};

SmokeChildren::SmokeChildren(std::chrono::seconds limit) : limit_(limit) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) fail("cannot watch signals");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SmokeChildren::~SmokeChildren() {
  for (const auto& [pid, name] : own_children()) ::kill(pid, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

Ended SmokeChildren::run(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                         const std::optional<Watch>& watch) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  Pipes pipes;
  pipes.out.reset(out[0]);
  UniqueFd out_end(out[1]);
  if (::pipe2(err.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  pipes.err.reset(err[0]);
  UniqueFd err_end(err[1]);
  if (watch) {
    pipes.files.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (::inotify_add_watch(pipes.files.get(), watch->folder.c_str(), IN_MOVED_TO) < 0)
      fail("cannot watch " + watch->folder);
  }
  std::vector<std::string> words = argv;
  std::vector<std::string> variables = environment;
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> variable_pointers = pointers_to(variables);
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t parent = ::getpid();
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start " + argv.front());
  if (child == 0) {
    ::setpgid(0, 0);  // Ctrl-C is this process's to pass on
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execve(word_pointers.front(), word_pointers.data(), variable_pointers.data());
    ::_exit(127);
  }
  out_end.reset();
  err_end.reset();
  Ended ended;
  pump(ended, pipes, child, watch);
  ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (interrupted_by_ != 0) throw Interrupted{interrupted_by_};
  return ended;
}

void SmokeChildren::stop(pid_t child) { ::kill(child, SIGTERM); }

void SmokeChildren::pump(Ended& ended, Pipes& pipes, pid_t child, const std::optional<Watch>& watch) {
  auto deadline = Clock::now() + limit_;
  bool is_stopping = false;
  bool is_over = false;
  while (!is_over || pipes.out || pipes.err) {
    std::array<pollfd, 4> polled{{{signals_.get(), POLLIN, 0},
                                  {pipes.out.get(), POLLIN, 0},
                                  {pipes.err.get(), POLLIN, 0},
                                  {is_over ? -1 : pipes.files.get(), POLLIN, 0}}};
    const int ready = ::poll(polled.data(), polled.size(), milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) fail("cannot wait");
    if (ready == 0) {
      if (is_over) break;  // somebody else holds the pipes
      if (!is_stopping) {
        ended.is_late = true;
        stop(child);
      } else {
        ::kill(child, SIGKILL);
      }
      is_stopping = true;
      deadline = Clock::now() + kPatience;
      continue;
    }
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      interrupted_by_ = number;
      stop(child);
      is_stopping = true;
      deadline = Clock::now() + kPatience;
    }
    if (polled[1].revents != 0 && !read_some(pipes.out.get(), ended.out)) pipes.out.reset();
    if (polled[2].revents != 0 && !read_some(pipes.err.get(), ended.err)) pipes.err.reset();
    if (polled[3].revents != 0) {
      alignas(inotify_event) std::array<char, 4096> buffer{};
      const ssize_t got = ::read(pipes.files.get(), buffer.data(), buffer.size());
      for (ssize_t at = 0; at < got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        watch->on_file(event->name);
        at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
      }
    }
    int status = 0;
    while (!is_over && ::waitpid(child, &status, WNOHANG) == child) {
      is_over = true;
      deadline = Clock::now() + std::chrono::seconds(1);
      ended.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }
}

std::vector<std::string> SmokeChildren::end_leftovers() {
  const auto deadline = Clock::now() + kLeftovers;
  while (Clock::now() < deadline) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (::waitpid(-1, nullptr, WNOHANG) < 0) return {};
    pollfd polled{signals_.get(), POLLIN, 0};
    ::poll(&polled, 1, milliseconds_until(deadline));
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      if (info.ssi_signo != SIGCHLD) throw Interrupted{static_cast<int>(info.ssi_signo)};
  }
  std::vector<std::string> left;
  for (const auto& [pid, name] : own_children()) {
    left.push_back(fmt::format("{} ({})", name, pid));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  return left;
}

}  // namespace ddprun::commands
