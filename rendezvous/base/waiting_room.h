#pragma once

#include "rendezvous/base/clock.h"

#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ddprun {

/// Who has come and not said yet who it is: each has the same time for that, from its first moment. Pure.
///
/// Whoever opens connections to us can have any number of them and say nothing. The one that has waited
/// longest is then the first to go: honest ones introduce themselves at once.
template <class Id>
class WaitingRoom {
 public:
  explicit WaitingRoom(Duration patience) : patience_(patience) {}

  /// `now` never goes back from one call to the next.
  void enter(const Id& id, TimePoint now) {
    leave(id);
    places_.emplace(id, waiting_.insert(waiting_.end(), {id, now}));
  }
  /// It has introduced itself, or is gone. No effect for one that is not here.
  void leave(const Id& id) {
    const auto place = places_.find(id);
    if (place == places_.end()) return;
    waiting_.erase(place->second);
    places_.erase(place);
  }
  /// The one that has waited longest, if that is `at_least`; it leaves.
  std::optional<Id> pop_oldest(TimePoint now, Duration at_least) {
    if (waiting_.empty() || now - waiting_.front().came < at_least) return std::nullopt;
    const Id id = waiting_.front().id;
    leave(id);
    return id;
  }
  /// Those whose time is over; they leave.
  std::vector<Id> pop_overdue(TimePoint now) {
    std::vector<Id> overdue;
    while (const std::optional<Id> id = pop_oldest(now, patience_)) overdue.push_back(*id);
    return overdue;
  }
  /// When the next one's time is over.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    if (waiting_.empty()) return std::nullopt;
    return waiting_.front().came + patience_;
  }
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] Duration patience() const { return patience_; }

 private:
  struct Guest {
    Id id;
    TimePoint came;
  };

  Duration patience_;
  std::list<Guest> waiting_;  ///< in the order in which they came
  std::unordered_map<Id, typename std::list<Guest>::iterator> places_;
};

}  // namespace ddprun
