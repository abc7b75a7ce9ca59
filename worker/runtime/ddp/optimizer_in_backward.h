#pragma once

#include <ddprun/distributed_data_parallel.h>
#include <ddprun/optim.h>

#include <vector>

namespace c10d {
class Reducer;
}

namespace ddprun::runtime {

/// Throws Exception kConfig unless `optimizer` can step in parts and has exactly the parameters in `reduced`,
/// whose gradients are dense.
void check_in_backward(const FusedOptimizer& optimizer, const std::vector<ModuleView::Parameter>& reduced);

/// A hook that averages a bucket, updates its parameters and resets their gradients. The arithmetic is that
/// of Python's _apply_optim_in_backward_hook: the sum, then the division. For a reducer that was told
/// set_optimizer_in_backward(); it owns the hook. `group` is looked at for every bucket: it is the reducer's,
/// also when that gets another one.
CommHook optimizer_in_backward(c10d::Reducer& reducer, const Group& group, FusedOptimizer& optimizer);

}  // namespace ddprun::runtime
