#include "rendezvous/membership/restart_policy.h"

#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::membership {
namespace {

// A generation that lived shorter than this may be a crash loop.
constexpr Duration kCrashLoopLife = std::chrono::seconds(3);
constexpr Duration kFirstBackoff = std::chrono::milliseconds(500);
constexpr Duration kLongestBackoff = std::chrono::seconds(30);

Duration backoff(int short_lives) {
  if (short_lives < 2) return Duration::zero();
  Duration delay = kFirstBackoff;
  for (int life = 2; life < short_lives && delay < kLongestBackoff; ++life) delay *= 2;
  return std::min(delay, kLongestBackoff);
}

}  // namespace

std::string refusal_of(const RestartDecision& refused, const std::string& what) {
  return refused.why.empty() ? what : fmt::format("{}; {}", what, refused.why);
}

void RestartPolicy::continue_from(int restarts_used, TimePoint now) {
  for (; restarts_used_ < restarts_used; ++restarts_used_) restarts_.push_back(now);
}

RestartDecision RestartPolicy::decide(Duration life, TimePoint now) {
  if (max_restarts_ == 0) return {};
  if (window_) {
    std::erase_if(restarts_, [&](TimePoint at) { return now - at >= *window_; });
  }
  const auto used = static_cast<int>(restarts_.size());
  if (used >= max_restarts_) {
    const std::string within = window_ ? fmt::format(" within {}", format_duration(*window_)) : std::string();
    return {.why = fmt::format("the restart budget is spent: {} of {}{}", used, max_restarts_, within)};
  }
  short_lives_ = life < kCrashLoopLife ? short_lives_ + 1 : 0;
  restarts_.push_back(now);
  ++restarts_used_;
  const Duration delay = backoff(short_lives_);
  std::string why = fmt::format("restart {} of {}", used + 1, max_restarts_);
  if (delay > Duration::zero()) {
    why += fmt::format(", in {} because the last {} generations lived less than {} each",
                       format_duration(delay), short_lives_, format_duration(kCrashLoopLife));
  }
  return {.restart = Restart{.number = used + 1, .allowed = max_restarts_, .delay = delay},
          .why = std::move(why)};
}

}  // namespace ddprun::membership
