#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::runtime::shm {

/// A process, told apart from a later one that got the same pid.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< clock ticks after boot, /proc/<pid>/stat field 22

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// The calling process.
Result<ProcessIdentity> this_process();

/// The start time of `pid`; nothing if there is no such process or it has ended and waits to be reaped; an
/// error when that cannot be known, for want of descriptors or memory.
Result<std::optional<std::uint64_t>> start_time_of(pid_t pid);

/// Where pids and /proc mean the same: "<boot id>/<pid namespace>". Two processes share memory through /proc
/// only when this is equal.
Result<std::string> host_key();

/// Tells whether peers still live. Opens a pidfd for a peer when it is first asked about; works from
/// /proc/<pid>/stat where pidfds are not allowed, and without any free descriptor from kill(pid, 0). One
/// thread.
class PeerWatch {
 public:
  explicit PeerWatch(int size) : pidfds_(static_cast<std::size_t>(size)) {}

  /// True once the process has ended, reaped or not. `process` is the same in every call for one `rank`.
  [[nodiscard]] bool is_dead(int rank, const ProcessIdentity& process);

 private:
  std::vector<UniqueFd> pidfds_;
};

}  // namespace ddprun::runtime::shm
