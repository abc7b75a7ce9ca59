#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/resource.h>
#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// One process to start. Descriptors are borrowed: the caller keeps and closes them.
struct SpawnRequest {
  std::vector<std::string> argv;         ///< argv[0] is a path
  std::vector<std::string> environment;  ///< "NAME=value", complete
  std::vector<int> cpus;                 ///< empty: the launcher's own
  int stdin_fd = 0;                      ///< the launcher's own, or above 2
  int stdout_fd = 1;                     ///< the same
  int stderr_fd = 2;                     ///< the same
  bool stdin_is_terminal = false;        ///< make stdin the controlling terminal of the new session
  std::optional<rlimit> open_files;      ///< RLIMIT_NOFILE to give back to the child
  std::optional<rlimit> lock_limit;      ///< RLIMIT_LOCKS, for limit_tag.h
  /// Of the GuardBoard: the child writes its pid there, before its program runs.
  std::atomic<pid_t>* session = nullptr;
  int lifeline_fd = -1;  ///< of a Lifeline: when we die, the kernel sends SIGTERM to its OS process group
  int cgroup_fd = -1;    ///< a cgroup v2 directory the child is born in
};

/// A process that has reached its execve. The pidfd is readable once it has ended; the caller must reap it.
struct SpawnedProcess {
  pid_t pid = 0;
  UniqueFd pidfd;
};

/// Starts a process in a session of its own, with default signal dispositions and an empty signal mask, that
/// is killed when the calling thread ends, and with no descriptor but the three given and, with a lifeline,
/// one from 100 on.
///
/// Blocks   until the child has called execve or failed to: the child borrows this process's memory until
///          then (CLONE_VM | CLONE_VFORK), which is what makes it cost microseconds and lets a failure be
///          reported exactly.
/// Threads  call it from one thread only, the one whose end shall kill the child, in a process without signal
///          handlers.
/// Errors   explain_exec_failure's for the last step; kOs naming the step for the others.
Result<SpawnedProcess> spawn(const SpawnRequest& request);

}  // namespace ddprun::launcher
