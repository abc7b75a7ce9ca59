#include "launcher/process/run_program.h"

#include "launcher/process/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

namespace ddprun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Appends what is there; false at the end.
bool drain_into(int fd, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

/// In the child: becomes the program, or says why not into `problem`.
[[noreturn]] void become_program(char* const* argv, int out, int err, int problem, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t said = ::write(problem, &error, sizeof error);
  ::_exit(1);
}

/// Reads what the pipes give until their other ends are closed. False: `end` came first.
bool read_to_the_end(std::array<pollfd, 3> pipes, const std::array<std::string*, 3>& texts,
                     SteadyClock::time_point end) {
  while (std::any_of(pipes.begin(), pipes.end(), [](const pollfd& pipe) { return pipe.fd >= 0; })) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now());
    if (left.count() <= 0) return false;
    if (::poll(pipes.data(), pipes.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (pipes[i].fd >= 0 && pipes[i].revents != 0 && !drain_into(pipes[i].fd, *texts[i])) pipes[i].fd = -1;
    }
  }
  return true;
}

/// The status of a child that ends before `end`. Most have ended when nobody has their streams any more; a wait without
/// polling would need pidfd_open, which some containers forbid.
std::optional<int> status_by(pid_t pid, SteadyClock::time_point end) {
  constexpr useconds_t kPollUs = 5000;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) != pid) {
    if (SteadyClock::now() >= end) return std::nullopt;
    ::usleep(kPollUs);
  }
  return status;
}

}  // namespace

ProgramOutput run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  const auto end = SteadyClock::now() + limit;
  ProgramOutput output;
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, the kernel forgets how a child ended
  std::optional<Pipe> out = open_pipe();
  std::optional<Pipe> err = open_pipe();
  std::optional<Pipe> problem = open_pipe();
  const pid_t parent = ::getpid();
  const pid_t pid = out && err && problem ? ::fork() : -1;
  if (pid < 0) {
    output.refused = errno;
    return output;
  }
  if (pid == 0)
    become_program(argv.data(), out->write_end.get(), err->write_end.get(), problem->write_end.get(), parent);
  for (Pipe* pipe : {&*out, &*err, &*problem}) pipe->write_end.reset();
  std::string error;  // errno of execve, in which it may hang as well: on a file system that does not answer
  const bool is_silent =
      read_to_the_end({pollfd{out->read_end.get(), POLLIN, 0}, pollfd{err->read_end.get(), POLLIN, 0},
                       pollfd{problem->read_end.get(), POLLIN, 0}},
                      {&output.out, &output.err, &error}, end);
  const std::optional<int> status = is_silent ? status_by(pid, end) : std::nullopt;
  if (error.size() == sizeof output.refused) {
    std::memcpy(&output.refused, error.data(), sizeof output.refused);
  } else if (status) {
    output.has_ended = true;
    if (WIFEXITED(*status)) output.code = WEXITSTATUS(*status);
  }
  if (!status) {
    ::kill(pid, SIGKILL);
    // One that is stuck in the kernel cannot be waited for: whoever is its next parent reaps it.
    ::waitpid(pid, nullptr, WNOHANG);
  }
  return output;
}

}  // namespace ddprun::launcher
