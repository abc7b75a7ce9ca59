#include "worker/training/ranks/rank_sums.h"

#include "worker/training/ranks/ring_sum.h"
#include <ddprun/collectives.h>
#include <ddprun/sharded_evaluation.h>

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

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

std::vector<std::vector<double>> times_of_ranks(const Group& group, std::span<const double> seconds,
                                                double whole) {
  std::vector<double> mine(seconds.begin(), seconds.end());
  mine.push_back(std::max(0.0, whole - std::accumulate(mine.begin(), mine.end(), 0.0)));
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double));
  std::vector<std::vector<double>> times;
  for (const std::string& theirs : all_gather_bytes(group, bytes)) {
    std::vector<double>& row = times.emplace_back(theirs.size() / sizeof(double));
    std::memcpy(row.data(), theirs.data(), theirs.size());
  }
  return times;
}

}  // namespace ddprun::training
