#pragma once

#include "rendezvous/base/unique_fd.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher {

/// P_PIDFD of waitid(2): the number is a pidfd's. The C library names it since 2.36.
inline constexpr auto kIdIsPidfd = static_cast<idtype_t>(3);

/// A descriptor of exactly this process, whoever has its number later; readable when it has ended. The kernel's calls,
/// because the C library's functions are younger than the libraries that ddprun runs with. None: errno says why.
inline UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// Sends `signal` to it, as of `info` where that is given. False: errno says why.
inline bool signal_pidfd(const UniqueFd& pidfd, int signal, siginfo_t* info = nullptr) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, info, 0) == 0;
}

}  // namespace ddprun::launcher
