#include "launcher/agent/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::launcher {

RestartDecision RestartPolicy::decide(const FailedGeneration& failed, TimePoint now) {
  if (failed.status) {
    const std::vector<int>& refusals = options_.no_restart_exit_codes;
    if (std::find(refusals.begin(), refusals.end(), failed.status->code()) != refusals.end()) {
      return {.why = fmt::format("exit code {} means that a restart will not help (--no-restart-exit-codes)",
                                 failed.status->code())};
    }
  }
  if (options_.max_restarts == 0) return {.why = "no restarts were asked for (--max-restarts)"};
  if (options_.window) {
    std::erase_if(restarts_, [&](TimePoint at) { return now - at >= *options_.window; });
  }
  const auto used = static_cast<int>(restarts_.size());
  if (used >= options_.max_restarts) {
    const std::string within =
        options_.window ? fmt::format(" within {:.0f} s", to_seconds(*options_.window)) : std::string();
    return {.why =
                fmt::format("the restart budget is spent: {} of {}{}", used, options_.max_restarts, within)};
  }
  short_lives_ = failed.life < options_.crash_loop_life ? short_lives_ + 1 : 0;
  restarts_.push_back(now);
  ++restart_count_;
  const Duration delay = backoff();
  std::string why = fmt::format("restart {} of {}", used + 1, options_.max_restarts);
  if (delay > Duration::zero()) {
    why += fmt::format(", in {:.1f} s because the last {} generations lived less than {:.1f} s each",
                       to_seconds(delay), short_lives_, to_seconds(options_.crash_loop_life));
  }
  return {.restart = true, .delay = delay, .why = std::move(why)};
}

Duration RestartPolicy::backoff() const {
  if (short_lives_ < 2) return Duration::zero();
  Duration delay = options_.first_backoff;
  for (int life = 2; life < short_lives_ && delay < options_.longest_backoff; ++life) delay *= 2;
  return std::min(delay, options_.longest_backoff);
}

}  // namespace ddprun::launcher
