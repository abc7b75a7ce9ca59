#pragma once

#include "rendezvous/base/clock.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace ddprun::membership::testing {

/// What is still to happen, by time, and what happens at one time as it was planned.
class Agenda {
 public:
  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] bool is_empty() const { return events_.empty(); }
  /// All that was ever planned.
  [[nodiscard]] std::uint32_t event_count() const { return event_count_; }

  void in(Duration delay, std::function<void()> act) {
    if (free_acts_.empty()) {
      free_acts_.push_back(static_cast<std::uint32_t>(acts_.size()));
      acts_.emplace_back();
    }
    const std::uint32_t place = free_acts_.back();
    free_acts_.pop_back();
    acts_[place] = std::move(act);
    events_.push_back({now_ + delay, ++event_count_, place});
    std::push_heap(events_.begin(), events_.end());
  }

  /// Goes on to the next, and has it happen.
  void next() {
    std::pop_heap(events_.begin(), events_.end());
    const Event event = events_.back();
    events_.pop_back();
    now_ = std::max(now_, event.at);
    const std::function<void()> act = std::move(acts_[event.act]);
    free_acts_.push_back(event.act);
    act();
  }

 private:
  // Small, because there are millions.
  struct Event {
    TimePoint at;
    std::uint32_t order;
    std::uint32_t act;
    bool operator<(const Event& other) const {
      return std::pair(at, order) > std::pair(other.at, other.order);
    }
  };

  TimePoint now_{};
  std::vector<Event> events_;                ///< a heap
  std::vector<std::function<void()>> acts_;  ///< what the events do
  std::vector<std::uint32_t> free_acts_;     ///< places in acts_ that are free
  std::uint32_t event_count_ = 0;
};

}  // namespace ddprun::membership::testing
