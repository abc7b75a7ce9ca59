#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/look/process_memory.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher::why {

/// A flight recorder, of which libtorch has one for each backend that records.
struct RecorderPlace {
  std::string backend;         ///< "gloo", "nccl"
  std::uint64_t instance = 0;  ///< of the pointer to it
};

/// Where the memory of a process with libtorch names the process groups that it is in.
struct GroupPlaces {
  std::vector<RecorderPlace> recorders;
  std::uint64_t registry = 0;  ///< c10d's std::map of Python's groups by name; 0: not found
};

/// The process groups that a process is in, whether it has used them or not. Python's torch.distributed registers each
/// by its name; NCCL and libddprun tell a flight recorder also who is in it (for Python's gloo, which learns its name
/// too late, that has no name). The number of the newest collective is looked for among the newest 8192 entries of each
/// recorder. Where older ones may be lost and fewer than 1000 are there, a group without any is left out: it may have
/// been used. So is what cannot be read or makes no sense. The layout is that of torch 2.11 to 2.15.
std::vector<Membership> read_memberships(const ReadMemory& memory, const GroupPlaces& places);

}  // namespace ddprun::launcher::why
