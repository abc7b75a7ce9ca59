#include "worker/runtime/ddp/make_reducer.h"

#include "worker/runtime/comm/backend/bucket_memory.h"
#include "worker/runtime/ddp/bucket_plan.h"

#include <torch/types.h>

namespace ddprun::runtime {

LoggedReducer make_reducer(const ModuleView& view, const std::vector<ModuleView::Parameter>& parameters,
                           const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                           const DistributedDataParallelOptions& options, LowPrecision* low) {
  std::vector<at::Tensor> tensors;
  std::vector<bool> sparse;
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back(parameters[i].tensor);
    sparse.push_back(parameters[i].has_sparse_gradient);
    names[i] = parameters[i].name;
  }
  const BucketLimits limits = bucket_limits(options);
  BucketOrder buckets = first_buckets(limits, tensors, sparse);
  if (low != nullptr) low->lower();
  LoggedReducer made;
  {
    const BucketAllocationScope buckets_in_shared_memory(*process_group, tensors.front().device());
    made.reducer = std::make_shared<c10d::Reducer>(
        std::move(tensors), std::move(buckets), process_group, std::move(sparse), limits.others,
        options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names), limits.first,
        options.skip_all_reduce_unused_params,
        /*use_python_reducer=*/false, limits.list);
  }
  made.logger = std::make_shared<c10d::Logger>(made.reducer);
  made.reducer->set_logger(made.logger);
  const std::vector<int> device_ids(options.device_ids.begin(), options.device_ids.end());
  const int default_output = device_ids.empty() ? -1 : device_ids.front();
  made.logger->set_construction_data_and_log(
      view.name, device_ids, options.output_device.value_or(default_output), options.broadcast_buffers,
      view.has_sync_batch_norm, options.static_graph);
  if (!options.static_graph) return made;
  made.reducer->set_static_graph();
  made.logger->set_static_graph();
  return made;
}

}  // namespace ddprun::runtime
