#pragma once

#include "rendezvous/membership/types.h"

#include <map>
#include <string>
#include <vector>

namespace ddprun::membership {

/// A node that is no longer there.
struct LostNode {
  MemberId who;
  std::string name;
  std::string what;  ///< "node b (10.0.0.2) was lost: it was silent for 5.00 s"
  NodeRank rank;
  bool is_by_pause = false;  ///< the coordinator stood still: nobody's fault, and no worker fails of it
  bool was_there =
      false;  ///< heard while the generation was being stopped, so that it was not stopped for this loss
  [[nodiscard]] bool explains_failures() const { return !is_by_pause && !was_there; }
  TimePoint returns_by = TimePoint::min();  ///< it may come back until then; long ago: it has left
};

/// What a job remembers of the nodes it has lost: which of them stopped the generation, whose seats are still
/// empty, until when workers nobody hears of may still run, and why each is no longer listened to. Pure.
class Losses {
 public:
  /// A node that cannot go on stopped the generation; it is still there.
  void add_cut_off(LostNode node);
  /// A seated node whose workers ran is gone. `is_cause`: its loss explains the end of the generation, and is
  /// not explained by a worker of it that had failed before.
  void add_gone(LostNode node, bool is_cause);
  /// Workers of a node whose connection ended, however, may run until `until`.
  void fence(MemberId who, TimePoint until);
  /// Its agent is here again, and said that none of them is alive.
  void came_back(MemberId who);
  /// A seat has its node again, whatever that is called now.
  void fill(NodeRank seat);
  /// From now on this member is told `why` and nothing else.
  void expel(MemberId who, std::string why);
  /// Time in which nobody could be heard does not count.
  void shift(Duration pause);
  /// Everybody has a seat again.
  void begin_generation();

  /// The losses of the generation that has ended, in the order they were noticed; forgets them.
  std::vector<LostNode> take();

  [[nodiscard]] bool empty() const { return lost_.empty(); }
  /// There are some, and a pause of the coordinator is behind all of them.
  [[nodiscard]] bool are_by_pause() const;
  [[nodiscard]] const std::vector<LostNode>& holes() const { return holes_; }
  /// Of the holes, those who may come back after `now`.
  [[nodiscard]] std::vector<LostNode> awaited(TimePoint now) const;
  /// Until when workers may run whose agent is not heard; long ago: there are none.
  [[nodiscard]] TimePoint fenced_until() const;
  /// nullptr: it is not expelled.
  [[nodiscard]] const std::string* why_expelled(MemberId who) const;

 private:
  std::vector<LostNode> lost_;
  std::vector<LostNode> holes_;
  std::map<MemberId, TimePoint> fences_;
  std::map<MemberId, std::string> expelled_;
};

}  // namespace ddprun::membership
