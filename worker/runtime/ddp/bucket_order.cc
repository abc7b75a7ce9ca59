// Which bucket each gradient is summed in. Buckets are the same on all ranks, or gradients of different parameters
// would be summed: they are computed alike in the constructor, broadcast when they are rebuilt, and agreed on where
// replicas of different pasts meet.
#include "worker/runtime/comm/backend/bucket_memory.h"
#include "worker/runtime/ddp/replica_check.h"
#include "worker/runtime/ddp/replica_state.h"
#include "worker/runtime/libtorch/reducer_access.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

[[noreturn]] void refuse_order(const std::string& why) {
  throw Exception(ErrorCode::kConfig, "DistributedDataParallel: " + why);
}

void check_each_once(const BucketOrder& order, std::size_t parameters) {
  std::vector<int> count(parameters);
  for (const std::vector<std::size_t>& bucket : order) {
    for (const std::size_t index : bucket) {
      if (index >= count.size()) {
        refuse_order(
            fmt::format("the bucket order names parameter {}, and {} are reduced", index, count.size()));
      }
      ++count[index];
    }
  }
  const auto wrong = std::find_if(count.begin(), count.end(), [](int times) { return times != 1; });
  if (wrong == count.end()) return;
  refuse_order(fmt::format("the bucket order holds parameter {} {} times; expected once",
                           wrong - count.begin(), *wrong));
}

// c10d refuses these, too, when it has already thrown away the buckets that there were.
void check_buckets(const BucketOrder& order, const std::vector<ModuleView::Parameter>& reduced) {
  const auto in_words = [&](std::size_t index) {
    const auto& [name, tensor, is_sparse] = reduced[index];
    return fmt::format("parameter {} ({}), {} on {}", index, name, at::toString(tensor.scalar_type()),
                       tensor.device().str());
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::vector<std::size_t>& bucket = order[i];
    if (bucket.empty()) {
      refuse_order(fmt::format("the bucket order has {} buckets, and bucket {} is empty; leave it out",
                               order.size(), i));
    }
    const at::Tensor& first = reduced[bucket.front()].tensor;
    for (const std::size_t index : bucket) {
      const auto& [name, tensor, is_sparse] = reduced[index];
      if (is_sparse && bucket.size() > 1) {
        refuse_order(
            fmt::format("bucket {} of the bucket order holds parameter {} ({}), whose gradient is sparse, "
                        "beside others; give it a bucket of its own",
                        i, index, name));
      }
      if (tensor.device() != first.device() || tensor.scalar_type() != first.scalar_type()) {
        refuse_order(
            fmt::format("bucket {} of the bucket order holds {}, and {}; a bucket has one dtype and one "
                        "device",
                        i, in_words(bucket.front()), in_words(index)));
      }
    }
  }
}

// Those that a program has frozen since are reduced nevertheless; and a forward under no_sync, which this rank alone
// may have made, leaves them in a smaller dtype.
std::vector<ModuleView::Parameter> as_reduced(std::vector<ModuleView::Parameter> parameters,
                                              const LowPrecision* low) {
  for (ModuleView::Parameter& parameter : parameters) {
    const at::Tensor own = low == nullptr ? parameter.tensor : low->in_own_dtype(parameter.tensor);
    parameter.tensor = own.detach().set_requires_grad(true);
  }
  return parameters;
}

void check_that_all_know_the_graph_or_none(const Group& group, bool knows) {
  const at::Tensor mine = torch::full({1}, std::int64_t{knows}, torch::kInt64);
  std::vector<int> knowing;
  const std::vector<at::Tensor> all = all_gather(group, mine.to(collective_device(group)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].item<std::int64_t>() != 0) knowing.push_back(static_cast<int>(rank));
  }
  if (knowing.empty() || knowing.size() == all.size()) return;
  refuse_order(
      fmt::format("static_graph learns the graph in a replica's first backward, which ranks {} of the group "
                  "have made and the others have not; construct it anew on all of them",
                  fmt::join(knowing, ", ")));
}

// One number for each parameter, in their order: its index, and whether a bucket begins with it. At the end, whether
// they stay. As many on all ranks.
std::vector<std::int64_t> in_numbers(const BucketOrder& order, bool are_kept) {
  std::vector<std::int64_t> numbers;
  for (const std::vector<std::size_t>& bucket : order) {
    for (const std::size_t index : bucket)
      numbers.push_back(2 * static_cast<std::int64_t>(index) + (index == bucket.front() ? 1 : 0));
  }
  numbers.push_back(are_kept ? 1 : 0);
  return numbers;
}

BucketOrder from_numbers(const std::vector<std::int64_t>& numbers) {
  BucketOrder order;
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    if (numbers[i] % 2 == 1) order.emplace_back();
    order.back().push_back(static_cast<std::size_t>(numbers[i] / 2));
  }
  return order;
}

}  // namespace

void ReplicaSync::State::agree_on_buckets() {
  if (!must_agree_on_buckets) return;
  if (group.size() > 1) {
    verify_replicas(group, as_reduced(averaged, low.get()), {},
                    options.broadcast_buffers ? buffers : std::vector<NamedTensor>{});
    if (reducer) take_buckets_of_rank0();
  }
  must_agree_on_buckets = has_changed_group = false;
}

void ReplicaSync::State::take_buckets_of_rank0() {
  if (options.static_graph) check_that_all_know_the_graph_or_none(group, has_queued_static_reduction);
  const std::vector<std::int64_t> mine =
      in_numbers(logger->get_per_bucket_variable_indices(), keeps_buckets(*reducer));
  const at::Tensor shared = torch::tensor(mine, torch::kInt64).to(collective_device(group));
  broadcast(group, shared);
  const at::Tensor here = shared.cpu();
  const auto* first = here.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> rank0(first, first + mine.size());
  use_buckets(from_numbers(rank0));
  keep_buckets(*reducer, rank0.back() == 1);
}

void ReplicaSync::State::use_buckets(const BucketOrder& order) {
  // A recorded CUDA graph holds the addresses of the buckets: they stay where nothing changes.
  if (logger->get_per_bucket_variable_indices() == order) return;
  const BucketAllocationScope buckets_in_shared_memory(*group.process_group(), device);
  const c10::InferenceMode not_for_inference(false);  // which the first forward may be for
  reducer->initialize_buckets(order);
  forget_parameters_of_buckets(*reducer);
}

BucketOrder ReplicaSync::bucket_order() {
  State& state = *state_;
  if (state.reducer == nullptr) return {};
  state.rebuild_buckets();  // what the next forward would do
  return state.logger->get_per_bucket_variable_indices();
}

void ReplicaSync::set_bucket_order(const BucketOrder& order) {
  State& state = *state_;
  check_each_once(order, state.reducer == nullptr ? 0 : state.reduced.size());
  check_buckets(order, as_reduced(state.reduced, state.low.get()));
  if (state.reducer == nullptr) return;
  state.rebuild_buckets();  // or the next forward would make other ones, in the order of the first backward
  const bool is_same = state.logger->get_per_bucket_variable_indices() == order;
  if (is_same && !state.has_changed_group) return;
  state.use_buckets(order);
  keep_buckets(*state.reducer, true);
}

}  // namespace ddprun::runtime
