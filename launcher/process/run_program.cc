#include "launcher/process/run_program.h"

#include "launcher/process/pidfd.h"
#include "launcher/process/pipe.h"
#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

namespace ddprun::launcher {
namespace {

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

/// Its pid; `refused` becomes an errno where it cannot be started.
pid_t start_program(const std::vector<std::string>& words, int out, int err, int& refused) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::optional<Pipe> problem = open_pipe();
  const pid_t parent = ::getpid();
  const pid_t pid = problem ? ::fork() : -1;
  if (pid < 0) {
    refused = errno;
    return pid;
  }
  if (pid == 0) become_program(argv.data(), out, err, problem->write_end.get(), parent);
  problem->write_end.reset();
  int error = 0;
  if (::read(problem->read_end.get(), &error, sizeof error) != static_cast<ssize_t>(sizeof error)) return pid;
  ::waitpid(pid, nullptr, 0);
  refused = error;
  return pid;
}

}  // namespace

ProgramOutput run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  ProgramOutput output;
  std::optional<Pipe> out = open_pipe();
  std::optional<Pipe> err = open_pipe();
  if (!out || !err) {
    output.refused = errno;
    return output;
  }
  const pid_t pid = start_program(words, out->write_end.get(), err->write_end.get(), output.refused);
  if (output.refused != 0) return output;
  out->write_end.reset();
  err->write_end.reset();
  const auto end = std::chrono::steady_clock::now() + limit;
  const UniqueFd pidfd = open_pidfd(pid);
  std::array<pollfd, 3> waits{pollfd{out->read_end.get(), POLLIN, 0}, pollfd{err->read_end.get(), POLLIN, 0},
                              pollfd{pidfd.get(), POLLIN, 0}};
  const auto is_over = [](const pollfd& wait) { return wait.fd < 0; };
  while (!std::all_of(waits.begin(), waits.end(), is_over)) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 ||
        (::poll(waits.data(), waits.size(), static_cast<int>(left.count())) <= 0 && errno != EINTR))
      break;
    if (waits[0].fd >= 0 && waits[0].revents != 0 && !drain_into(waits[0].fd, output.out)) waits[0].fd = -1;
    if (waits[1].fd >= 0 && waits[1].revents != 0 && !drain_into(waits[1].fd, output.err)) waits[1].fd = -1;
    if (waits[2].revents != 0) waits[2].fd = -1;
  }
  output.has_ended = pidfd && std::all_of(waits.begin(), waits.end(), is_over);
  if (!output.has_ended) ::kill(pid, SIGKILL);
  int status = 0;
  // One that is stuck in the kernel cannot be waited for: whoever is its next parent reaps it.
  ::waitpid(pid, &status, WNOHANG);
  if (output.has_ended && WIFEXITED(status)) output.code = WEXITSTATUS(status);
  return output;
}

}  // namespace ddprun::launcher
