#include "launcher/process/spawn.h"

#include "launcher/process/close_range.h"
#include "launcher/process/exec_failure.h"
#include "launcher/process/lifeline.h"
#include "launcher/process/pipe.h"
#include "rendezvous/base/check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>

namespace ddprun::launcher {
namespace {

// The child's steps, in their order.
enum class Stage {
  kSession,
  kSignals,
  kParentDeath,
  kStdio,
  kTerminal,
  kAffinity,
  kLimits,
  kDescriptors,
  kExec
};

const char* to_string(Stage stage) {
  switch (stage) {
    case Stage::kSession:
      return "setsid";
    case Stage::kSignals:
      return "resetting the signal mask";
    case Stage::kParentDeath:
      return "prctl(PR_SET_PDEATHSIG)";
    case Stage::kStdio:
      return "connecting stdin, stdout and stderr";
    case Stage::kTerminal:
      return "taking the terminal";
    case Stage::kAffinity:
      return "sched_setaffinity";
    case Stage::kLimits:
      return "setrlimit(RLIMIT_NOFILE)";
    case Stage::kDescriptors:
      return "closing descriptors";
    case Stage::kExec:
      return "execve";
  }
  return "?";
}

// All the child needs, built before it exists: it may not allocate. It answers in `stage` and `error_number`,
// which the parent reads when it runs again; with a copied address space (cgroup mode) through `report_fd`
// instead.
struct ChildTask {
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  const cpu_set_t* cpus = nullptr;
  std::size_t cpus_size = 0;
  const rlimit* open_files = nullptr;
  const rlimit* lock_limit = nullptr;
  std::array<int, 3> stdio{};
  bool stdin_is_terminal = false;
  pid_t parent = 0;
  std::atomic<pid_t>* session = nullptr;
  int lifeline_fd = -1;
  int report_fd = -1;
  Stage stage = Stage::kSession;
  int error_number = 0;
};

void reset_dispositions() {
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &default_action, nullptr);
}

bool connect_stdio(const std::array<int, 3>& stdio) {
  for (int target = 0; target < 3; ++target) {
    const int source = stdio[static_cast<std::size_t>(target)];
    // dup2 onto itself would leave a close-on-exec flag in place.
    const int result = source == target ? ::fcntl(target, F_SETFD, 0) : ::dup2(source, target);
    if (result < 0) return false;
  }
  return true;
}

bool close_the_rest(int kept, int also_kept) {
  unsigned next = 3;
  for (const int fd : {std::min(kept, also_kept), std::max(kept, also_kept)}) {
    if (fd < 3) continue;
    const auto keep = static_cast<unsigned>(fd);
    if (keep > next && close_descriptors(next, keep - 1) != 0 && errno != ENOSYS) return false;
    next = keep + 1;
  }
  return close_descriptors(next, ~0U) == 0 || errno == ENOSYS;
}

// Runs in the child: async-signal-safe calls only, no allocation, no exceptions. It never returns, and stands
// on a stack that a sanitizer does not know; so what a sanitizer notes of calls and of ends is not to be
// noted here.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool run_stages(ChildTask& task) {
  task.stage = Stage::kSession;
  if (::setsid() < 0) return false;
  task.stage = Stage::kSignals;
  reset_dispositions();
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return false;
  task.stage = Stage::kParentDeath;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  // A parent that died before the prctl sends nothing any more.
  if (::getppid() != task.parent) ::_exit(128 + SIGKILL);
  if (task.lock_limit != nullptr) ::setrlimit(RLIMIT_LOCKS, task.lock_limit);  // a mark among others
  // Here and not by the parent, which may be killed before it could tell.
  if (task.session != nullptr) *task.session = ::getpid();
  task.lifeline_fd = hold_lifeline(task.lifeline_fd);  // one safeguard among others, too
  task.stage = Stage::kStdio;
  if (!connect_stdio(task.stdio)) return false;
  task.stage = Stage::kTerminal;
  if (task.stdin_is_terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) return false;
  task.stage = Stage::kAffinity;
  if (task.cpus != nullptr && ::sched_setaffinity(0, task.cpus_size, task.cpus) != 0) return false;
  task.stage = Stage::kLimits;
  if (task.open_files != nullptr && ::setrlimit(RLIMIT_NOFILE, task.open_files) != 0) return false;
  task.stage = Stage::kDescriptors;
  if (!close_the_rest(task.report_fd, task.lifeline_fd)) return false;
  task.stage = Stage::kExec;
  ::execve(task.argv[0], task.argv, task.environment);
  return false;
}

[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] int child_main(void* argument) {
  auto& task = *static_cast<ChildTask*>(argument);
  run_stages(task);
  task.error_number = errno;
  if (task.report_fd >= 0) {
    const std::array<int, 2> report{static_cast<int>(task.stage), task.error_number};
    [[maybe_unused]] const ssize_t written = ::write(task.report_fd, report.data(), sizeof report);
  }
  ::_exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

struct CpuSetDeleter {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetDeleter>;

CpuSet make_cpu_set(const std::vector<int>& cpus, std::size_t& size) {
  if (cpus.empty()) return nullptr;
  const int count = *std::max_element(cpus.begin(), cpus.end()) + 1;
  CpuSet set(CPU_ALLOC(static_cast<std::size_t>(count)));
  size = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
  CPU_ZERO_S(size, set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), size, set.get());
  return set;
}

void reap(pid_t pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

// ThreadSanitizer's clone takes the child for one with memory of its own and stops watching it; with shared
// memory it is the parent that is not watched any more, and every lock it takes from then on goes unseen.
#ifdef __SANITIZE_THREAD__
constexpr bool kSharesMemory = false;
#else
constexpr bool kSharesMemory = true;
#endif

// The usual way: the child shares our memory and we sleep until it has called execve.
Result<SpawnedProcess> clone_sharing_memory(ChildTask& task) {
  constexpr std::size_t kStackBytes = 64 * 1024;
  const auto stack = std::make_unique<std::byte[]>(kStackBytes);
  std::byte* top = stack.get() + kStackBytes;
  top -= reinterpret_cast<std::uintptr_t>(top) % 16;
  int pidfd = -1;
  const pid_t pid = ::clone(child_main, top, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &task, &pidfd);
  if (pid < 0) return os_error("clone", errno);
  return SpawnedProcess{pid, UniqueFd(pidfd)};
}

// Born inside a cgroup: moving a process there later would cost milliseconds. The kernel has this for clone3
// only, which glibc does not wrap, and sharing memory needs a stack switch that C++ cannot express; so memory
// is copied. Without a cgroup too where `kSharesMemory` is false.
Result<SpawnedProcess> clone_copying_memory(ChildTask& task, int cgroup_fd) {
  std::optional<Pipe> report = open_pipe();
  if (!report) return os_error("pipe", errno);
  task.report_fd = report->write_end.get();
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_VFORK | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  if (cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup_fd);
  }
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0) child_main(&task);
  if (pid < 0) return os_error(cgroup_fd >= 0 ? "clone3 into the job's cgroup" : "clone3", errno);
  report->write_end.reset();
  std::array<int, 2> answer{};
  if (::read(report->read_end.get(), answer.data(), sizeof answer) == sizeof answer) {
    task.stage = static_cast<Stage>(answer[0]);
    task.error_number = answer[1];
  }
  return SpawnedProcess{static_cast<pid_t>(pid), UniqueFd(pidfd)};
}

}  // namespace

Result<SpawnedProcess> spawn(const SpawnRequest& request) {
  DDPRUN_CHECK(!request.argv.empty(), "a worker needs a program");
  const std::vector<char*> argv = pointers(request.argv);
  const std::vector<char*> environment = pointers(request.environment);
  ChildTask task;
  const CpuSet cpus = make_cpu_set(request.cpus, task.cpus_size);
  task.argv = argv.data();
  task.environment = environment.data();
  task.cpus = cpus.get();
  task.open_files = request.open_files ? &*request.open_files : nullptr;
  task.lock_limit = request.lock_limit ? &*request.lock_limit : nullptr;
  task.stdio = {request.stdin_fd, request.stdout_fd, request.stderr_fd};
  task.stdin_is_terminal = request.stdin_is_terminal;
  task.session = request.session;
  task.lifeline_fd = request.lifeline_fd;
  task.parent = ::getpid();
  Result<SpawnedProcess> process = kSharesMemory && request.cgroup_fd < 0
                                       ? clone_sharing_memory(task)
                                       : clone_copying_memory(task, request.cgroup_fd);
  if (!process || task.error_number == 0) return process;
  if (task.session != nullptr) *task.session = 0;
  reap(process->pid);
  const std::string& program = request.argv.front();
  if (task.stage == Stage::kExec) return explain_exec_failure(program, task.error_number, read_head(program));
  return os_error(fmt::format("cannot start {}: {}", program, to_string(task.stage)), task.error_number);
}

}  // namespace ddprun::launcher
