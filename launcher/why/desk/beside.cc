#include "launcher/why/desk/beside.h"

#include "launcher/process/leave_launcher.h"
#include "launcher/process/pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

namespace ddprun::launcher::why {
namespace {

[[noreturn]] void run_beside(const char* name, int kept, const std::function<void(int)>& work, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  leave_launcher(name, {kept});  // what the launcher publishes must not be seen twice
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
    std::signal(signal, SIG_DFL);
  std::signal(SIGCHLD, SIG_IGN);  // what was killed because it hung is reaped whenever it ends
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  work(kept);
  ::_exit(0);
}

Error cannot_start_beside(const char* name, const char* call) {
  return os_error(fmt::format("cannot start the process \"{}\": {}", name, call), errno);
}

Result<UniqueFd> fork_beside(const char* name, int kept, const std::function<void(int)>& work) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start_beside(name, "fork");
  if (pid == 0) run_beside(name, kept, work, parent);
  // Nobody can have reaped it yet: this is the thread that would.
  return open_pidfd(pid);
}

}  // namespace

Result<Beside> start_beside(const char* name, int kept, const std::function<void(int)>& work) {
  Result<UniqueFd> pidfd = fork_beside(name, kept, work);
  if (!pidfd) return pidfd.error();
  return Beside(std::move(*pidfd));
}

Result<Beside> start_beside(const char* name, const std::function<void(int)>& work) {
  std::optional<Pipe> pipe = open_pipe();
  if (!pipe) return cannot_start_beside(name, "pipe");
  ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  Result<UniqueFd> pidfd = fork_beside(name, pipe->write_end.get(), work);
  if (!pidfd) return pidfd.error();
  return Beside(std::move(*pidfd), std::move(pipe->read_end));
}

}  // namespace ddprun::launcher::why
