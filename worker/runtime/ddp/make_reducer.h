#pragma once

#include <ddprun/distributed_data_parallel.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>

namespace ddprun::runtime {

/// A c10d::Reducer for these parameters, set up as Python's DistributedDataParallel does: one bucket before
/// the first backward (two limits with find_unused_parameters), rebuilt after it in the order gradients
/// became ready. The one place that knows the constructor of this libtorch.
std::unique_ptr<c10d::Reducer> make_reducer(const std::vector<ModuleView::Parameter>& parameters,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                            const DistributedDataParallelOptions& options);

}  // namespace ddprun::runtime
