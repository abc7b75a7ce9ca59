#pragma once

#include "rendezvous/membership/types.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::membership {

/// The seat of a node that is no longer there.
struct VacantSeat {
  MemberId who;
  std::string name;
  std::string what;  ///< "node b (10.0.0.2) was lost: it was silent for 5.00 s"
  NodeRank rank;
  TimePoint returns_by = TimePoint::min();  ///< it may come back until then; long ago: it has left
};

/// What a job remembers of the nodes it has lost: whose seats are still empty, until when workers nobody
/// hears of may still run, and why each is no longer listened to. Pure.
class LostNodes {
 public:
  /// A seated node is gone.
  void add(VacantSeat vacant) { vacant_seats_.push_back(std::move(vacant)); }
  /// Workers of a node whose connection ended, however, may run until `until`.
  void fence(MemberId who, TimePoint until);
  /// Its rank in the last generation, should it come back.
  void remember_place(MemberId who, NodeRank place) { places_[who] = place; }
  /// Its agent is here again, and said that none of them is alive. Its rank in the last generation, if it had one.
  std::optional<NodeRank> came_back(MemberId who);
  /// A seat has its node again, whatever that is called now.
  void fill(NodeRank seat);
  /// From now on this member is told `why` and nothing else.
  void expel(MemberId who, std::string why);
  /// Time in which nobody could be heard does not count.
  void shift(Duration pause);
  /// Everybody has a seat again.
  void begin_generation();

  [[nodiscard]] const std::vector<VacantSeat>& vacant_seats() const { return vacant_seats_; }
  /// Of the vacant seats, those who may come back after `now`.
  [[nodiscard]] std::vector<VacantSeat> awaited(TimePoint now) const;
  /// Until when workers may run whose agent is not heard; long ago: there are none.
  [[nodiscard]] TimePoint fenced_until() const;
  /// nullptr: it is not expelled.
  [[nodiscard]] const std::string* why_expelled(MemberId who) const;

 private:
  std::vector<VacantSeat> vacant_seats_;
  std::map<MemberId, TimePoint> fences_;
  std::map<MemberId, NodeRank> places_;
  std::map<MemberId, std::string> expelled_;
};

}  // namespace ddprun::membership
