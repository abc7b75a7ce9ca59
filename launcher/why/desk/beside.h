#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <functional>

namespace ddprun::launcher::why {

/// Forks a process that works beside the launcher, for what must not make that wait: of all descriptors it has only
/// `kept`, which `work` is given, standard streams are /dev/null, it is in a session of its own and ends
/// with the launcher, or with `work`. A pidfd of it. Errors kOs.
///
/// Process  who reaps the launcher's other children reaps it. Its own children are reaped by the kernel.
Result<UniqueFd> start_beside(const char* name, int kept, const std::function<void(int kept)>& work);

}  // namespace ddprun::launcher::why
