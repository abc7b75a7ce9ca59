#include "worker/training/ranks/rank_sums.h"

#include "worker/training/ranks/ring_sum.h"
#include <ddprun/collectives.h>
#include <ddprun/sharded_evaluation.h>

#include <torch/types.h>

namespace ddprun::training {

std::vector<double> sum_over_job(const Group& group, const RankBlock& block,
                                 const std::vector<std::vector<double>>& rows) {
  if (!block.is_virtual) return sum_over_ranks(group, rows.front());
  std::vector<double> mine;
  for (const std::vector<double>& row : rows) mine.insert(mine.end(), row.begin(), row.end());
  const auto columns = static_cast<std::int64_t>(rows.front().size());
  const at::Tensor sent = at::tensor(mine, at::kDouble).to(collective_device(group));
  at::Tensor all = at::empty({block.ranks, columns}, sent.options());
  all_gather_into_tensor(group, all, sent);
  all = all.cpu();
  at::Tensor sums = at::empty({columns}, all.options());
  ring_sum(sums, all, {.first = 0, .whole = columns});
  const auto* const first = sums.const_data_ptr<double>();
  return {first, first + columns};
}

}  // namespace ddprun::training
