#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/verdict/doing.h"

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::why {

using Ranks = std::set<int>;

/// A job's picture by rank and by process group, and what the rules of the verdict ask of it. Pure.
class Scene {
 public:
  /// A process group and one of its backends, each of which has numbers of its own.
  struct GroupName {
    std::string name;
    std::string members;  ///< as they were told, which tells two of one name apart
    std::string backend;
    auto operator<=>(const GroupName&) const = default;
  };

  /// What the ranks have recorded of one process group: who of its members is where.
  struct Group {
    std::map<int, std::map<std::int64_t, const Collective*>> entries;  ///< by rank, by sequence number
    /// By rank that says it is in it: the number of its newest, of which there need not be an entry.
    std::map<int, std::int64_t> newest;
    Ranks members;  ///< who says so, or has used it; of the world all that were seen

    /// Of the group that had this name before and is gone, the newest collective that is known; null: there was none.
    const Collective* before = nullptr;

    /// The next one that a rank has recorded. Numbers that go down begin another group of that name.
    void add(int rank, const Collective& entry);
    /// Ranks that have done nothing in this one yet show what they did in the one before: all that was done there was
    /// done before anything here, because who makes a group waits for all. `entries` of nobody are empty then.
    void forget_the_one_before();

    /// The highest number in which somebody waits; 0: nobody does.
    [[nodiscard]] std::int64_t awaited() const;
    [[nodiscard]] std::int64_t last_entered(int rank) const;
    /// The oldest that it has not left; null: none.
    [[nodiscard]] const Collective* first_open(int rank) const;
    [[nodiscard]] bool is_waiting(int rank) const { return first_open(rank) != nullptr; }
  };

  /// `picture` has to outlive it.
  explicit Scene(const JobPicture& picture);

  [[nodiscard]] const JobPicture& picture() const { return picture_; }
  [[nodiscard]] const std::map<GroupName, Group>& groups() const { return groups_; }
  [[nodiscard]] const RankFacts& facts(int rank) const { return *facts_.at(rank); }
  [[nodiscard]] const Activity& activity(int rank) const { return activities_.at(rank); }

  /// "all_reduce #1294": the oldest that it has not left; empty: none that was recorded.
  [[nodiscard]] std::string waits_in(int rank) const;

  /// Those whose activity is one of these.
  [[nodiscard]] Ranks ranks_that(bool (*condition)(Doing)) const;
  [[nodiscard]] Ranks ranks_that(bool (*condition)(const Activity&)) const;
  /// Who could not be read.
  [[nodiscard]] Ranks unread() const;
  /// Who was not seen, or not well enough to say what it waits for: no stack of one that does nothing.
  [[nodiscard]] Ranks unclear() const;

  /// Whether anything was begun or completed between the looks, or came from another rank, by any rank or by one of
  /// these.
  [[nodiscard]] bool has_progress() const;
  [[nodiscard]] bool has_progress(const Ranks& ranks) const;

  /// Since the newest collective of any rank began, or a node has felt one of its ranks get on, in seconds; 0: there is
  /// progress; -1: none was recorded.
  [[nodiscard]] double moved_s() const;

  /// For how long those ranks have waited, in seconds: the one that came last counts. -1: not known.
  [[nodiscard]] double waited_by(const Ranks& ranks) const;

  /// Whether the rank has left a collective a moment ago, so that its silence is as usual, and short.
  [[nodiscard]] bool was_just_in_one(int rank) const;

  /// Whether such a wait is no news, by the distances between collectives so far.
  [[nodiscard]] bool is_usual(double waited_s) const;

  /// By rank, for whom it waits: who has not entered the collective of a group in which it is.
  [[nodiscard]] std::map<int, Ranks> waits_for() const;
  /// Of these only who does not get on, nor anybody for whom it waits, directly or through others.
  [[nodiscard]] std::map<int, Ranks> without_progress(std::map<int, Ranks> waits_for) const;

  /// The same, parted: nobody in one waits for anybody in another.
  [[nodiscard]] static std::vector<std::map<int, Ranks>> parts_of(const std::map<int, Ranks>& waits_for);

  /// Of these, which may have ended, the members of a group in which somebody waits: of the world all are.
  [[nodiscard]] Ranks missing_among(const Ranks& ranks) const;
  /// Who waits for others, or spins in a collective over NCCL, or in a message that it does nothing but wait for, or
  /// began a minute ago.
  [[nodiscard]] Ranks waiting_or_spinning() const;
  /// Of these, those that wait for nobody knows whom: for a message or a key.
  [[nodiscard]] Ranks wait_for_any(const Ranks& ranks) const;
  /// Of these, which may not have been seen, those for whom one of `waiting` may wait: for a message or a key nobody
  /// knows from whom it is to come, and in a group nobody knows where a rank is of which too little could be read.
  [[nodiscard]] Ranks may_be_awaited(const Ranks& ranks, const Ranks& waiting) const;

  /// Whether what is not among the rank's entries of the group has not happened: what could not be read of it may have.
  [[nodiscard]] bool knows(int rank, const Group& group) const;

  /// Ranks of the job that are not in the picture.
  [[nodiscard]] Ranks unseen() const;

  /// The rank whose end of a connection has this address; -1: none.
  [[nodiscard]] int rank_at(const std::string& address) const;

 private:
  [[nodiscard]] bool has_progress(int rank) const;
  /// Since it began, in seconds.
  [[nodiscard]] double age_s(const Collective& entry) const;
  /// Since the newest collective that it has left began, in seconds; -1: none is shown.
  [[nodiscard]] double left_s(int rank) const;
  /// Since it began the newest that it has not left: an older one may be a message that it asks for now and then. -1:
  /// none.
  [[nodiscard]] double newest_wait_s(int rank) const;
  /// Whether it was in one in the latter half of so many seconds, and within the last minute.
  [[nodiscard]] bool has_got_on_since(double waited, int rank) const;
  /// gloo's, which are recorded nowhere.
  [[nodiscard]] bool gets_messages(const RankFacts& to) const;
  void gather_groups();

  const JobPicture& picture_;
  std::map<int, const RankFacts*> facts_;
  std::map<int, Activity> activities_;
  std::map<GroupName, Group> groups_;
};

}  // namespace ddprun::launcher::why
