#include "worker/runtime/ddp/make_reducer.h"

#include "worker/runtime/comm/backend/bucket_memory.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>

namespace ddprun::runtime {
namespace {

struct BucketLimits {
  std::vector<std::size_t> initial;
  std::int64_t first = 0;
  std::int64_t others = 0;
  std::vector<std::int64_t> list;  ///< in place of the two, if not empty
};

std::int64_t bytes_of(double mebibytes) { return static_cast<std::int64_t>(mebibytes * 1024.0 * 1024.0); }

BucketLimits limits_of(const DistributedDataParallelOptions& options) {
  BucketLimits limits;
  for (const double cap : options.bucket_cap_mb_list) limits.list.push_back(bytes_of(cap));
  if (!limits.list.empty()) {
    limits.first = limits.others = *std::max_element(limits.list.begin(), limits.list.end());
    limits.initial = {limits.list.begin(), limits.list.end()};
    return limits;
  }
  limits.others =
      options.bucket_cap_mb ? bytes_of(*options.bucket_cap_mb) : std::int64_t{c10d::kDefaultBucketBytesCap};
  limits.first = options.bucket_cap_mb ? limits.others : std::int64_t{c10d::kDefaultFirstBucketBytes};
  if (options.static_graph || !options.find_unused_parameters) {
    // Before the first backward the order of gradients is unknown: one bucket cannot be reduced too early.
    limits.initial = {std::numeric_limits<std::int64_t>::max()};
  } else if (options.bucket_cap_mb) {
    limits.initial = {static_cast<std::size_t>(limits.others)};
  } else {
    limits.initial = {static_cast<std::size_t>(limits.first), static_cast<std::size_t>(limits.others)};
  }
  return limits;
}

}  // namespace

LoggedReducer make_reducer(const ModuleView& view, const std::vector<ModuleView::Parameter>& parameters,
                           const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                           const DistributedDataParallelOptions& options) {
  std::vector<at::Tensor> tensors;
  std::vector<bool> sparse;
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back(parameters[i].tensor);
    sparse.push_back(parameters[i].has_sparse_gradient);
    names[i] = parameters[i].name;
  }
  const BucketLimits limits = limits_of(options);
  auto [buckets, bucket_limits] = c10d::compute_bucket_assignment_by_size(tensors, limits.initial, sparse);
  // Gradients come about in the reverse of the order in which parameters are used.
  std::reverse(buckets.begin(), buckets.end());
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
