#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// Memory of workers that outlives them: for each local rank kKeptFiles anonymous files (memfd), in which a worker of
/// one generation leaves what one of the next goes on from. They have no name anywhere, are opened through
/// /proc/<launcher>/fd by processes of the same user, cost nothing until somebody writes, and are gone with this
/// process, however that ends.
class KeptFiles {
 public:
  /// Errors  kOs: the kernel gives no such file.
  static Result<KeptFiles> make(int workers);

  /// By local rank, what DDPRUN_KEPT_MEMORY says.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::vector<UniqueFd> files_;  ///< kKeptFiles for each local rank in turn
};

}  // namespace ddprun::launcher
