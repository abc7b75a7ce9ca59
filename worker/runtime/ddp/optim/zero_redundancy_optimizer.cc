#include "worker/runtime/ddp/optim/tensor_lists.h"
#include <ddprun/collectives.h>
#include <ddprun/exception.h>
#include <ddprun/zero_redundancy_optimizer.h>

#include <fmt/format.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>

namespace ddprun {
namespace {

using ParameterState = FusedOptimizer::ParameterState;

// Python's _partition_parameters: group by group, the largest first, each to the rank that has least so far.
std::vector<int> share_out(const std::vector<at::Tensor>& parameters,
                           const std::vector<std::size_t>& group_sizes, int ranks) {
  std::vector<int> owners(parameters.size());
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
  std::size_t first = 0;
  for (const std::size_t size : group_sizes) {
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return parameters[a].numel() > parameters[b].numel();
    });
    for (const std::size_t index : order) {
      const auto least = std::min_element(load.begin(), load.end());
      owners[index] = static_cast<int>(least - load.begin());
      *least += parameters[index].numel();
    }
    first += size;
  }
  return owners;
}

// What a rank tells the one that collects: its share, entries by "index name".
std::string to_bytes(const std::vector<int>& owners, int rank, const std::vector<ParameterState>& share) {
  c10::Dict<std::string, at::Tensor> entries;
  std::size_t next = 0;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != rank) continue;
    for (const auto& [name, tensor] : share[next])
      entries.insert(fmt::format("{} {}", i, name), tensor.cpu());
    ++next;
  }
  const std::vector<char> bytes = torch::pickle_save(entries);
  return {bytes.begin(), bytes.end()};
}

void add_share(const std::string& bytes, std::vector<ParameterState>& state) {
  const c10::IValue entries = torch::pickle_load({bytes.begin(), bytes.end()});
  for (const auto& entry : entries.toGenericDict()) {
    const std::string& key = entry.key().toStringRef();
    const std::size_t space = key.find(' ');
    state.at(std::stoul(key)).emplace_back(key.substr(space + 1), entry.value().toTensor());
  }
}

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(Group group,
                                                 const std::vector<std::vector<at::Tensor>>& groups,
                                                 const MakeLocal& make_local)
    : group_(std::move(group)) {
  for (const std::vector<at::Tensor>& parameters : groups) append_group(parameters);
  if (parameters().empty()) {
    throw Exception(ErrorCode::kConfig,
                    "ZeroRedundancyOptimizer: it got no parameters; there is nothing to share out");
  }
  owners_ = share_out(parameters(), group_sizes(), group_.size());
  std::vector<std::vector<at::Tensor>> shares;
  std::size_t index = 0;
  for (const std::size_t size : group_sizes()) {
    shares.emplace_back();
    for (std::size_t i = 0; i < size; ++i, ++index) {
      if (owners_[index] == group_.rank()) shares.back().push_back(parameters()[index]);
    }
  }
  local_ = make_local(shares);
  const at::Tensor supports = torch::full({1}, std::int64_t{local_->supports_scale()}, torch::kInt64);
  const at::Tensor all_support = supports.to(collective_device(group_));
  all_reduce(group_, all_support, ReduceOp::kMin);
  supports_scale_ = all_support.item<std::int64_t>() != 0;
}

std::vector<at::Tensor> ZeroRedundancyOptimizer::owned_by(int rank) const {
  std::vector<at::Tensor> owned;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == rank) owned.push_back(parameters()[i].detach());
  }
  return owned;
}

void ZeroRedundancyOptimizer::step(const StepScale& scale) {
  notify_join();
  update_share(scale);
}

void ZeroRedundancyOptimizer::skip_step() {
  notify_join();
  send_parameters();
}

void ZeroRedundancyOptimizer::update_share(const StepScale& scale) {
  is_consolidated_ = false;
  consolidated_.clear();
  local_->step(scale);
  send_parameters();
}

void ZeroRedundancyOptimizer::send_parameters() {
  struct Share {
    int from;
    std::vector<at::Tensor> tensors;
    at::Tensor flat;
    Pending pending;
  };
  const at::NoGradGuard no_grad;
  std::vector<Share> shares;
  for (int rank = 0; rank < group_.size(); ++rank) {
    for (std::vector<at::Tensor>& tensors : runtime::by_device_and_dtype(owned_by(rank))) {
      std::vector<at::Tensor> rows;
      for (const at::Tensor& tensor : tensors) rows.push_back(tensor.reshape({-1}));
      const at::Tensor flat = at::cat(rows);
      shares.push_back({rank, std::move(tensors), flat, async_broadcast(group_, flat, rank)});
    }
  }
  for (Share& share : shares) {
    share.pending.wait();
    if (share.from == group_.rank()) continue;
    std::int64_t offset = 0;
    for (at::Tensor& tensor : share.tensors) {
      tensor.copy_(share.flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
      offset += tensor.numel();
    }
  }
}

void ZeroRedundancyOptimizer::consolidate_state(int to) {
  consolidated_.clear();
  is_consolidated_ = group_.rank() == to;
  if (is_consolidated_) consolidated_.resize(parameters().size());
  for (int rank = 0; rank < group_.size(); ++rank) {
    std::string mine;
    if (rank == group_.rank()) mine = to_bytes(owners_, rank, local_->state());
    const std::string share = broadcast_bytes(group_, mine, rank);
    if (is_consolidated_) add_share(share, consolidated_);
  }
}

std::vector<ParameterState> ZeroRedundancyOptimizer::state() const {
  if (is_consolidated_) return consolidated_;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("ZeroRedundancyOptimizer: rank {} holds only its share of the state; call "
                  "consolidate_state() on every rank after the last step, and save on the rank it names",
                  group_.rank()));
}

void ZeroRedundancyOptimizer::load_state(const std::vector<ParameterState>& state) {
  if (state.size() != parameters().size()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("optimizer state: it has {} parameters, {} has {}; is it of another model?",
                                state.size(), name(), parameters().size()));
  }
  std::vector<ParameterState> share;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == group_.rank()) share.push_back(state[i]);
  }
  local_->load_state(share);
  is_consolidated_ = false;
  consolidated_.clear();
}

}  // namespace ddprun
