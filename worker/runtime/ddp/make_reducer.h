#pragma once

#include "worker/runtime/ddp/low_precision.h"
#include <ddprun/distributed_data_parallel.h>

#include <torch/csrc/distributed/c10d/logger.hpp>

#include <memory>

namespace c10d {
class Reducer;
}

namespace ddprun::runtime {

/// A reducer and the logger that it and users ask. The logger holds the reducer; the reducer uses it without
/// asking whether there is one.
struct LoggedReducer {
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
};

/// A c10d::Reducer for `parameters`, which are of `view`, set up as Python's DistributedDataParallel does:
/// one bucket before the first backward (two limits with find_unused_parameters), rebuilt after it in the
/// order gradients became ready. The one place that knows the constructor of this libtorch.
/// `low`, if any, has lowered the parameters afterwards: what is in which bucket goes by their own dtypes, as in
/// Python, and the buckets' memory by the smaller one.
LoggedReducer make_reducer(const ModuleView& view, const std::vector<ModuleView::Parameter>& parameters,
                           const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                           const DistributedDataParallelOptions& options, LowPrecision* low = nullptr);

}  // namespace ddprun::runtime
