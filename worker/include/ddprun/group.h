#pragma once

#include <ddprun/init.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// The ranks that take part in a collective: what every function of collectives.h takes first. A Context
/// converts to the group of all ranks, a c10d process group to itself; new_group and split_group make others.
///
/// A cheap handle: copies share one group, which is closed when the last of them (and of what was built on
/// its process_group) goes. Any number of groups may be used at once, each from one thread at a time.
class Group {
 public:
  Group(const Context& context) : process_group_(context.process_group()) {}  // NOLINT: meant to convert
  Group(c10::intrusive_ptr<c10d::ProcessGroup> process_group)                 // NOLINT: meant to convert
      : process_group_(std::move(process_group)) {}

  /// False on a rank that the group was made without: Python's GroupMember.NON_GROUP_MEMBER. Such a rank may
  /// ask for everything here but process_group(), and call no collective.
  [[nodiscard]] bool is_member() const { return process_group_ != nullptr; }
  /// 0 … size-1 within the group; -1 on a rank that is no member.
  [[nodiscard]] int rank() const { return process_group_ ? process_group_->getRank() : -1; }
  [[nodiscard]] int size() const;  ///< number of members, on every rank

  /// The members by their ranks in the world, in the order of their ranks here: get_process_group_ranks. A
  /// c10d group that was not made by new_group or split_group counts as a world.
  [[nodiscard]] std::vector<int> ranks() const;
  /// Python's get_global_rank and get_group_rank.
  /// Errors  kConfig: there is no such member.
  [[nodiscard]] int global_rank(int group_rank) const;
  [[nodiscard]] int group_rank(int global_rank) const;

  /// What DistributedDataParallel and c10d take. Never null.
  /// Errors  kConfig on a rank that is no member.
  [[nodiscard]] const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;

 private:
  friend class GroupMaker;
  Group() = default;

  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  std::shared_ptr<const std::vector<int>> ranks_;  ///< of the members in the world; null: a world itself
  int own_rank_ = -1;                              ///< in the world, of a rank that is no member
};

struct NewGroupOptions {
  /// "nccl", "gloo", "shm" or "cpu:gloo,cuda:nccl"; empty: what the parent has. shm: the members are on one
  /// host.
  std::string backend{};
  /// How long a collective may take, and how long the ranks wait for each other here; default: the parent's.
  std::optional<std::chrono::milliseconds> timeout{};
};

/// A group of some of the ranks of `parent`, named by their ranks in it (in a world, Python's global ranks);
/// none: all of them. Their ranks in the new group follow their order in the parent, whatever that of
/// `ranks`. Other ranks get a group without them in it.
///
/// Order    collective over `parent`: every rank calls it, members or not, with the same arguments.
/// Threads  one at a time for a parent.
/// Errors   on every rank of the parent the same: Exception kConfig when a rank is named twice or is outside
///          the parent, an unknown backend, nccl without a GPU, arguments that differ between ranks; kTimeout,
///          naming who did not come. On the members: kUnavailable when the backend cannot be had.
[[nodiscard]] Group new_group(const Group& parent, std::vector<int> ranks = {},
                              const NewGroupOptions& options = {});

/// Cuts `parent` into groups that share no rank, each with the parent's backends, and returns the one that
/// this rank is in; a rank that is in none gets the first, without being in it. Order, threads and errors are
/// new_group's; a rank in two lists and an empty list are refused as well.
[[nodiscard]] Group split_group(const Group& parent, std::vector<std::vector<int>> split_ranks,
                                std::optional<std::chrono::milliseconds> timeout = {});

}  // namespace ddprun
