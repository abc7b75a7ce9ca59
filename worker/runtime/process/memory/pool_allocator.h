#pragma once

namespace ddprun::runtime {

/// From now on the large CPU tensors of this process lie in a BlockPool, which outlives everything.
/// Idempotent; any thread. Small ones come from the allocator that libtorch had before.
void use_pool_for_cpu_tensors();

}  // namespace ddprun::runtime
