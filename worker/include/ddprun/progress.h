#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun {

/// What `ddprun why`, `ddprun ps --watch` and --metrics show of this rank beside its collectives, and what
/// --hang-timeout takes for progress. A DistributedDataParallel counts its steps by itself, and ddprun-worker tells
/// all of it.
///
/// Cost     a few stores into memory; no lock, and no system call but in the first one, which maps the memory.
/// Threads  any. None is collective.

/// `step` steps are done so far. After the first call a DistributedDataParallel counts none by itself any more.
void note_step(std::int64_t step);

/// What the rank does now, as a verb with what belongs to it, "evaluates", "reads data"; up to 31 bytes, what is
/// longer is cut. Empty: nothing that has a name.
void note_phase(std::string_view words);

/// It gets on within a step or phase that takes long.
void note_progress();

}  // namespace ddprun
