#pragma once

#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <string>

namespace ddprun::membership {

/// What is known while nodes gather for a generation.
struct RoundView {
  int ready = 0;             ///< nodes that could start now
  bool is_first = true;      ///< no generation has run yet
  TimePoint opened_at{};     ///< since when nodes are waited for
  TimePoint last_arrival{};  ///< when the last new node came
};

enum class RoundVerdict { kWait, kClose, kGiveUp };

struct RoundDecision {
  RoundVerdict verdict = RoundVerdict::kWait;
  TimePoint decide_again_at = TimePoint::max();  ///< kWait: when time alone would change the answer
  std::string why;                               ///< "all 4 nodes are here"
};

/// Whether a generation can begin at `now`.
///
/// All MAX nodes are there, or (MIN of them and this is not the first round: all survivors are back by then):
/// at once. MIN of them, first round: `debounce` after the last arrival. Fewer than MIN: never; given up
/// after `join_timeout`.
RoundDecision decide_round(const JobSpec& spec, const Timing& timing, const RoundView& view, TimePoint now);

}  // namespace ddprun::membership
