#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/look/memberships.h"
#include "launcher/why/look/process_memory.h"

#include <sys/types.h>

#include <cstdint>

namespace ddprun::launcher::why {

/// Reads a flight recorder of PyTorch's from a memory. The layout is that of torch 2.11 to 2.15; one that cannot be
/// that is told as a problem. Only the newest `most` entries are read.
Recorder read_recorder(const ReadMemory& memory, const RecorderPlace& place, std::size_t most);

/// Of each group the newest collective, where that is older than the newest `most` entries and has not ended: what a
/// thread in the background waits in while others go on. The newest 8192 entries are looked at. Of gloo alone: NCCL's
/// may never be said to have ended.
std::vector<Collective> read_lingering(const ReadMemory& memory, const RecorderPlace& place,
                                       std::size_t most);

/// Where gloo's recorder, NCCL's and the registry of groups lie in a process; no recorders: it has no libtorch.
GroupPlaces find_recorders(pid_t pid);

}  // namespace ddprun::launcher::why
