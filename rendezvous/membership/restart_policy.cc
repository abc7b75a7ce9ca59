#include "rendezvous/membership/restart_policy.h"

#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::membership {

std::string explain(const std::string& what, const std::string& diagnosis) {
  return diagnosis.empty() ? what : fmt::format("{}: {}", what, diagnosis);
}

Restart restart_of(const RestartDecision& granted, int restart_count, std::string why) {
  return {.restart_count = restart_count,
          .number = granted.number,
          .allowed = granted.allowed,
          .delay = granted.delay,
          .why = std::move(why)};
}

// Who has asked for none is not told that there is none.
std::string refusal_of(const RestartDecision& refused, const std::string& what) {
  return refused.allowed == 0 ? what : fmt::format("{}; {}", what, refused.why);
}

void RestartPolicy::continue_from(int restart_count, TimePoint now) {
  for (; restart_count_ < restart_count; ++restart_count_) restarts_.push_back(now);
}

RestartDecision RestartPolicy::decide(Duration life, TimePoint now) {
  if (options_.max_restarts == 0) return {.why = "no restarts were asked for (--max-restarts)"};
  if (options_.window) {
    std::erase_if(restarts_, [&](TimePoint at) { return now - at >= *options_.window; });
  }
  const auto used = static_cast<int>(restarts_.size());
  if (used >= options_.max_restarts) {
    const std::string within =
        options_.window ? fmt::format(" within {}", format_duration(*options_.window)) : std::string();
    return {
        .why = fmt::format("the restart budget is spent: {} of {}{}", used, options_.max_restarts, within),
        .allowed = options_.max_restarts};
  }
  short_lives_ = life < options_.crash_loop_life ? short_lives_ + 1 : 0;
  restarts_.push_back(now);
  ++restart_count_;
  const Duration delay = backoff();
  std::string why = fmt::format("restart {} of {}", used + 1, options_.max_restarts);
  if (delay > Duration::zero()) {
    why += fmt::format(", in {} because the last {} generations lived less than {} each",
                       format_duration(delay), short_lives_, format_duration(options_.crash_loop_life));
  }
  return {.restart = true,
          .delay = delay,
          .why = std::move(why),
          .number = used + 1,
          .allowed = options_.max_restarts};
}

Duration RestartPolicy::backoff() const {
  if (short_lives_ < 2) return Duration::zero();
  Duration delay = options_.first_backoff;
  for (int life = 2; life < short_lives_ && delay < options_.longest_backoff; ++life) delay *= 2;
  return std::min(delay, options_.longest_backoff);
}

}  // namespace ddprun::membership
