#include "worker/runtime/ddp/divergence/disagreement.h"
#include "worker/runtime/ddp/divergence/hash.h"
#include "worker/runtime/ddp/divergence/replica.h"
#include <ddprun/collectives.h>
#include <ddprun/divergence.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>

namespace ddprun {
namespace {

std::vector<TensorHash> hash_named(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  std::vector<TensorHash> hashes = runtime::hash_tensors(values);
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = runtime::combine(hashes[i], tensors[i].first);
  return hashes;
}

/// One small all-gather.
bool all_ranks_have(const Group& group, const TensorHash& hash) {
  const at::Tensor mine =
      at::tensor({static_cast<std::int64_t>(hash.first), static_cast<std::int64_t>(hash.second)});
  const at::Tensor all =
      at::empty({group.size(), 2}, at::TensorOptions(at::kLong).device(collective_device(group)));
  all_gather_into_tensor(group, all, mine.to(all.device()));
  return all.cpu().eq(mine).all().item<bool>();
}

std::vector<std::vector<TensorHash>> gather_hashes(const Group& group, const std::vector<TensorHash>& mine) {
  static_assert(sizeof(TensorHash) == 16);
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(TensorHash));
  std::vector<std::vector<TensorHash>> all;
  for (const std::string& list : all_gather_bytes(group, bytes)) {
    all.emplace_back(list.size() / sizeof(TensorHash));
    if (!list.empty()) std::memcpy(all.back().data(), list.data(), list.size());
  }
  return all;
}

std::string describe_tensor(const NamedTensor& tensor) {
  return fmt::format("{} ({} [{}])", tensor.first, c10::toString(tensor.second.scalar_type()),
                     fmt::join(tensor.second.sizes().begin(), tensor.second.sizes().end(), ", "));
}

void check_every_steps(std::int64_t every_steps) {
  if (every_steps >= 1) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("DivergenceCheck: every_steps is {}; expected at least 1", every_steps));
}

}  // namespace

DivergenceCheck::DivergenceCheck(Group group, const torch::nn::Module& module,
                                 const FusedOptimizer& optimizer, DivergenceCheckOptions options)
    : group_(std::move(group)),
      tensors_([&module, &optimizer, ignored = options.ignored] {
        std::vector<NamedTensor> tensors = runtime::replicated_tensors(module, ignored);
        for (NamedTensor& one : runtime::replicated_tensors(optimizer, module, ignored))
          tensors.push_back(std::move(one));
        return tensors;
      }),
      every_steps_(options.every_steps) {
  check_every_steps(every_steps_);
  runtime::check_is_replicated(optimizer);
  runtime::replicated_tensors(module, options.ignored);  // refuses unknown names now
}

DivergenceCheck::DivergenceCheck(Group group, const torch::nn::Module& module, DivergenceCheckOptions options)
    : DivergenceCheck(
          std::move(group),
          [&module, ignored = options.ignored] { return runtime::replicated_tensors(module, ignored); },
          options.every_steps) {
  runtime::replicated_tensors(module, options.ignored);
}

DivergenceCheck::DivergenceCheck(Group group, std::function<std::vector<NamedTensor>()> tensors,
                                 std::int64_t every_steps)
    : group_(std::move(group)), tensors_(std::move(tensors)), every_steps_(every_steps) {
  check_every_steps(every_steps_);
}

void DivergenceCheck::after_step(std::int64_t step) {
  if (step % every_steps_ == 0) compare(step);
}

void DivergenceCheck::compare(std::int64_t step) {
  if (group_.size() > 1) {
    const std::vector<NamedTensor> tensors = tensors_();
    const std::vector<TensorHash> hashes = hash_named(tensors);
    TensorHash whole;
    for (const TensorHash& hash : hashes) whole = runtime::combine(whole, hash);
    if (!all_ranks_have(group_, whole)) complain(step, tensors, hashes);
  }
  last_equal_step_ = step;
}

void DivergenceCheck::complain(std::int64_t step, const std::vector<NamedTensor>& tensors,
                               const std::vector<TensorHash>& hashes) const {
  const auto disagreement = runtime::judge_replicas(gather_hashes(group_, hashes));
  if (!disagreement) {
    throw Exception(ErrorCode::kInternal,
                    fmt::format("DivergenceCheck: after step {} the ranks agree on every tensor, "
                                "but not on all together: a rank computes wrongly",
                                step));
  }
  runtime::Telling telling{.step = step, .last_equal_step = last_equal_step_};
  telling.descriptions = all_gather_bytes(group_, disagreement->index < tensors.size()
                                                      ? describe_tensor(tensors[disagreement->index])
                                                      : std::string());
  for (int rank = 0; rank < group_.size(); ++rank) telling.world_ranks.push_back(group_.global_rank(rank));

  const auto& differing = disagreement->differing;
  Divergence divergence{.step = step,
                        .tensor = telling.descriptions[static_cast<std::size_t>(disagreement->reference)]};
  if (divergence.tensor.empty())
    divergence.tensor = telling.descriptions[static_cast<std::size_t>(differing.front())];
  for (const int rank : differing)
    divergence.ranks.push_back(telling.world_ranks[static_cast<std::size_t>(rank)]);
  divergence.is_mine = std::find(differing.begin(), differing.end(), group_.rank()) != differing.end();
  throw DivergenceError(divergence, runtime::explain(*disagreement, telling));
}

}  // namespace ddprun
