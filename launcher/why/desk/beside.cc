#include "launcher/why/desk/beside.h"

#include "launcher/process/leave_launcher.h"
#include "launcher/process/pidfd.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

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

}  // namespace

Result<UniqueFd> start_beside(const char* name, int kept, const std::function<void(int)>& work) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return os_error(fmt::format("cannot start the process \"{}\": fork", name), errno);
  if (pid == 0) run_beside(name, kept, work, parent);
  // Nobody can have reaped it yet: this is the thread that would.
  return open_pidfd(pid);
}

}  // namespace ddprun::launcher::why
