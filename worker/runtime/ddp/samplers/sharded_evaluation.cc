#include <ddprun/collectives.h>
#include <ddprun/sharded_evaluation.h>

#include <torch/types.h>

#include <numeric>

namespace ddprun {

std::vector<std::int64_t> evaluation_shard(std::int64_t count, int rank, int size) {
  const std::int64_t first = count * rank / size;
  const std::int64_t last = count * (rank + 1) / size;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(last - first));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

std::vector<std::int64_t> evaluation_shard(std::int64_t count, const Group& group) {
  return evaluation_shard(count, group.process_group()->getRank(), group.size());
}

std::vector<double> sum_over_ranks(const Group& group, const std::vector<double>& counted) {
  at::Tensor sums = at::tensor(counted, at::kDouble).to(collective_device(group));
  all_reduce(group, sums);
  sums = sums.cpu();
  const auto* const first = sums.const_data_ptr<double>();
  return {first, first + counted.size()};
}

}  // namespace ddprun
