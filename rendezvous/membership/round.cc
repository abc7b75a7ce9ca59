#include "rendezvous/membership/round.h"

#include <fmt/format.h>

namespace ddprun::membership {

RoundDecision decide_round(const JobSpec& spec, const Timing& timing, const RoundView& view, TimePoint now) {
  if (view.ready >= spec.max_nodes) {
    return {RoundVerdict::kClose, now,
            spec.max_nodes == 1 ? "the node is here" : fmt::format("all {} nodes are here", spec.max_nodes)};
  }
  if (view.ready >= spec.min_nodes) {
    if (!view.is_first) {
      return {RoundVerdict::kClose, now,
              fmt::format("all that are left are back: {} of at least {}", view.ready, spec.min_nodes)};
    }
    const TimePoint last_call = view.last_arrival + timing.debounce;
    if (now >= last_call) {
      return {RoundVerdict::kClose, now,
              fmt::format("{} of {} to {} nodes are here and none came in the last {} s", view.ready,
                          spec.min_nodes, spec.max_nodes, to_seconds(timing.debounce))};
    }
    return {RoundVerdict::kWait, last_call,
            fmt::format("{} of {} to {} nodes are here; giving others {} s", view.ready, spec.min_nodes,
                        spec.max_nodes, to_seconds(timing.debounce))};
  }
  const TimePoint deadline = view.opened_at + timing.join_timeout;
  if (now >= deadline) {
    return {RoundVerdict::kGiveUp, now,
            fmt::format("{} of {} nodes came within {} s", view.ready, spec.min_nodes,
                        to_seconds(timing.join_timeout))};
  }
  return {RoundVerdict::kWait, deadline, fmt::format("{} of {} nodes are here", view.ready, spec.min_nodes)};
}

}  // namespace ddprun::membership
