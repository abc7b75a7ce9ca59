#pragma once

#include "launcher/process/pidfd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <csignal>
#include <functional>
#include <utility>

namespace ddprun::launcher::why {

/// A process that works beside the launcher, for what must not make that wait. Destroyed: killed.
class Beside {
 public:
  explicit Beside(UniqueFd pidfd, UniqueFd said = {}) : pidfd_(std::move(pidfd)), said_(std::move(said)) {}
  Beside(Beside&&) = default;
  Beside& operator=(Beside&&) = delete;
  ~Beside() { kill(); }

  /// Now. Its pidfd, readable once it has ended.
  UniqueFd kill() {
    if (pidfd_) signal_pidfd(pidfd_, SIGKILL);
    return std::move(pidfd_);
  }
  /// What it writes can be read there, without blocking; gives the descriptor away.
  [[nodiscard]] int release_said() { return said_.release(); }

 private:
  UniqueFd pidfd_;
  UniqueFd said_;
};

/// Forks such a process: of all descriptors it has only `kept`, which `work` is given, standard streams are
/// /dev/null, it is in a session of its own and ends with the launcher, or with `work`. Errors kOs.
///
/// Process  who reaps the launcher's other children reaps it. Its own children are reaped by the kernel.
Result<Beside> start_beside(const char* name, int kept, const std::function<void(int kept)>& work);

/// One whose `work` writes into a pipe: release_said() is the other end.
Result<Beside> start_beside(const char* name, const std::function<void(int out)>& work);

}  // namespace ddprun::launcher::why
