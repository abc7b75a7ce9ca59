#include "rendezvous/base/env_contract.h"
#include "worker/runtime/comm/backends.h"
#include "worker/runtime/comm/roll_call/roll_call.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/group.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <numeric>
#include <set>

namespace ddprun {

namespace {

using RankLists = std::vector<std::vector<int>>;
using runtime::Backends;

std::string name_list(const std::vector<int>& ranks) { return fmt::format("[{}]", fmt::join(ranks, ", ")); }

std::string name_lists(const RankLists& lists) {
  std::string text;
  for (const auto& list : lists) text += (text.empty() ? "" : " ") + name_list(list);
  return text;
}

/// Why these lists cannot be groups of a parent of `size` ranks.
std::optional<std::string> find_fault(const RankLists& lists, int size) {
  std::set<int> seen;
  if (lists.empty()) return "no list of ranks is given";
  for (const auto& list : lists) {
    if (list.empty()) return "a group without ranks is asked for";
    for (const int rank : list) {
      if (rank < 0 || rank >= size)
        return fmt::format("rank {} is outside the parent group of {} (ranks 0 to {})", rank, size, size - 1);
      if (!seen.insert(rank).second)
        return fmt::format("rank {} is named twice in {}", rank, name_lists(lists));
    }
  }
  return std::nullopt;
}

c10d::Store& store_of(const c10d::ProcessGroup& group, const std::string& what) {
  if (const auto store = group.getStore()) return *store;
  throw Exception(ErrorCode::kConfig, what + ": the parent group was made without a store; give it one");
}

int gpu_of(const c10d::ProcessGroup& group) {
  const auto device = group.getBoundDeviceId();
  return device ? device->index() : -1;
}

bool is_one_host() {
  if (!is_launched(process_env)) return true;
  const Result<WorkerEnv> env = parse_worker_env(process_env);
  return env && env->local_world_size.value() == env->world_size.value();
}

std::chrono::milliseconds timeout_of(c10d::ProcessGroup& group) {
  return group.getDefaultBackend()->getBackendOptions()->timeout;
}

}  // namespace

/// Makes groups from a parent. What the caller asked for is checked by all ranks together, so that none waits
/// for one that was refused.
class GroupMaker {
 public:
  GroupMaker(const char* what, const Group& parent, std::optional<std::chrono::milliseconds> timeout)
      : what_(what),
        parent_(parent),
        process_group_(*parent.process_group()),
        store_(store_of(process_group_, what)),
        timeout_(timeout.value_or(timeout_of(process_group_))) {}

  Group make(RankLists lists, const std::string& backend) {
    for (auto& list : lists) std::sort(list.begin(), list.end());
    const Result<Backends> backends = backend.empty()
                                          ? runtime::backends_of(process_group_)
                                          : runtime::parse_backends(backend, gpu_of(process_group_) >= 0);
    std::optional<std::string> fault = find_fault(lists, parent_.size());
    if (!fault && !backends) fault = backends.error().message();
    const std::string asked_for =
        fault ? *fault : fmt::format("{} over {}", name_lists(lists), to_string(*backends));
    const std::string prefix = agree(asked_for, fault.has_value());
    const auto mine = std::find_if(lists.begin(), lists.end(), [this](const std::vector<int>& list) {
      return std::binary_search(list.begin(), list.end(), parent_.rank());
    });
    Group group;
    const std::vector<int>& list = mine == lists.end() ? lists.front() : *mine;
    group.ranks_ = std::make_shared<const std::vector<int>>(in_world(list));
    group.own_rank_ = parent_.global_rank(parent_.rank());
    if (mine != lists.end()) {
      const auto index = static_cast<int>(mine - lists.begin());
      group.process_group_ = join(list, *backends, fmt::format("{}/{}", prefix, index));
    }
    return group;
  }

 private:
  /// A prefix for the keys of these groups, once all ranks have said the same.
  std::string agree(const std::string& asked_for, bool is_fault) {
    const std::int64_t call = store_.add(fmt::format("groups/made/{}", parent_.rank()), 1);
    const std::string prefix = fmt::format("groups/{}", call);
    const runtime::RollCall roll{.store = store_,
                                 .prefix = prefix,
                                 .rank = parent_.rank(),
                                 .size = parent_.size(),
                                 .timeout = timeout_};
    // One letter, then what the rank asks for, or why it cannot.
    const std::string mine = (is_fault ? "-" : "+") + asked_for;
    const auto agreed =
        runtime::call_roll(roll, mine, [](const std::vector<std::string>& said) { return judge(said); });
    if (!agreed) runtime::throw_error(agreed.error().with(what_));
    return prefix;
  }

  static Result<std::string> judge(const std::vector<std::string>& said) {
    const auto other =
        std::find_if(said.begin(), said.end(), [&](const std::string& text) { return text != said.front(); });
    if (other == said.end()) {
      if (said.front().starts_with('+')) return std::string();
      return Error(ErrorCode::kConfig, said.front().substr(1));
    }
    const auto bad =
        std::find_if(said.begin(), said.end(), [](const std::string& text) { return text.starts_with('-'); });
    if (bad != said.end())
      return Error(ErrorCode::kConfig, fmt::format("rank {}: {}", bad - said.begin(), bad->substr(1)));
    return Error(ErrorCode::kConfig,
                 fmt::format("rank 0 asked for {}, rank {} for {}; every rank of the parent group gives the "
                             "same arguments, in the same order of calls",
                             said.front().substr(1), other - said.begin(), other->substr(1)));
  }

  c10::intrusive_ptr<c10d::ProcessGroup> join(const std::vector<int>& list, const Backends& backends,
                                              const std::string& prefix) {
    const auto place = std::lower_bound(list.begin(), list.end(), parent_.rank());
    const std::vector<int> global = in_world(list);
    const runtime::BackendRequest request{
        .store = c10::make_intrusive<c10d::PrefixStore>(prefix, process_group_.getStore()),
        .rank = static_cast<int>(place - list.begin()),
        .world_size = static_cast<int>(list.size()),
        .one_host = is_one_host(),
        .timeout = timeout_,
        .name = process_group_.getGroupName() + "/" + prefix,
        .ranks = {global.begin(), global.end()}};
    return runtime::make_group(request, backends, gpu_of(process_group_));
  }

  [[nodiscard]] std::vector<int> in_world(const std::vector<int>& list) const {
    std::vector<int> global;
    for (const int rank : list) global.push_back(parent_.global_rank(rank));
    return global;
  }

  const char* what_;
  const Group& parent_;
  c10d::ProcessGroup& process_group_;
  c10d::Store& store_;
  std::chrono::milliseconds timeout_;
};

int Group::size() const { return ranks_ ? static_cast<int>(ranks_->size()) : process_group_->getSize(); }

std::vector<int> Group::ranks() const {
  if (ranks_) return *ranks_;
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int Group::global_rank(int group_rank) const {
  if (group_rank >= 0 && group_rank < size())
    return ranks_ ? (*ranks_)[static_cast<std::size_t>(group_rank)] : group_rank;
  throw Exception(ErrorCode::kConfig, fmt::format("rank {} is outside a group of {}", group_rank, size()));
}

int Group::group_rank(int global_rank) const {
  const std::vector<int> all = ranks();
  const auto found = std::find(all.begin(), all.end(), global_rank);
  if (found != all.end()) return static_cast<int>(found - all.begin());
  throw Exception(ErrorCode::kConfig,
                  fmt::format("rank {} of the world is not in the group of {}", global_rank, name_list(all)));
}

const c10::intrusive_ptr<c10d::ProcessGroup>& Group::process_group() const {
  if (process_group_) return process_group_;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("rank {} is not in the group of {}: only its members may use it; ask is_member()",
                  own_rank_, name_list(ranks())));
}

Group new_group(const Group& parent, std::vector<int> ranks, const NewGroupOptions& options) {
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(parent.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return GroupMaker("new_group", parent, options.timeout).make({std::move(ranks)}, options.backend);
}

Group split_group(const Group& parent, std::vector<std::vector<int>> split_ranks,
                  std::optional<std::chrono::milliseconds> timeout) {
  return GroupMaker("split_group", parent, timeout).make(std::move(split_ranks), "");
}

}  // namespace ddprun
