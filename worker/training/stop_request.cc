#include "worker/training/stop_request.h"

#include "rendezvous/base/exit_codes.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

namespace ddprun::training {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kTakesTime = std::numeric_limits<std::int64_t>::max();
constexpr Duration kLeastPatience = 100ms;
constexpr int kPatienceInSteps = 5;
constexpr Duration kWakeUp = 20ms;

sigset_t terminate_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
}

/// True when SIGTERM came within `limit`.
bool wait_for_terminate(Duration limit) {
  const sigset_t set = terminate_set();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec wait{seconds.count(), (limit - seconds).count()};
  return ::sigtimedwait(&set, nullptr, &wait) == SIGTERM;
}

[[noreturn]] void end_now() { ::_exit(exit_code::kSignalBase + SIGTERM); }

std::string key(const Context& context, const char* name) {
  return fmt::format("ddprun/stop/{}/{}", context.restart_count(), name);
}

std::vector<std::uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

StopRequest::StopRequest(const Clock& clock) : clock_(clock) {
  const sigset_t set = terminate_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

StopRequest::~StopRequest() {
  thread_.request_stop();
  // Wakes the thread out of sigtimedwait; it sees the stop token before it believes the signal.
  ::pthread_kill(thread_.native_handle(), SIGTERM);
}

void StopRequest::progress() {
  const std::int64_t now = clock_.now().time_since_epoch().count();
  const std::int64_t before = last_progress_ns_.exchange(now);
  if (before != 0 && before != kTakesTime) longest_step_ns_ = std::max(longest_step_ns_.load(), now - before);
}

void StopRequest::take_time() { last_progress_ns_ = kTakesTime; }

void StopRequest::watch(const std::stop_token& stop) {
  while (!wait_for_terminate(std::chrono::hours(1))) {
    if (stop.stop_requested()) return;
  }
  if (stop.stop_requested()) return;
  if (last_progress_ns_ == 0) end_now();
  requested_ = true;
  while (!stop.stop_requested()) {
    const bool again = wait_for_terminate(kWakeUp);
    if (stop.stop_requested()) return;
    if (again || is_stuck()) end_now();
  }
}

Duration StopRequest::patience() const {
  return std::max(kLeastPatience, kPatienceInSteps * Duration(longest_step_ns_.load()));
}

bool StopRequest::is_stuck() const {
  const std::int64_t last = last_progress_ns_;
  if (last == kTakesTime) return false;
  return clock_.now() > TimePoint(Duration(last)) + patience();
}

std::int64_t agree_stop_step(const Context& context, std::int64_t step, std::int64_t margin) {
  const std::vector<std::uint8_t> agreed =
      context.store()->compareSet(key(context, "step"), {}, to_bytes(std::to_string(step + margin)));
  return std::stoll(std::string(agreed.begin(), agreed.end()));
}

bool meet_at_stop(const Context& context, Duration timeout) {
  const std::string everyone = key(context, "everyone");
  if (context.store()->add(key(context, "arrived"), 1) == context.world_size()) {
    context.store()->set(everyone, to_bytes("here"));
    return true;
  }
  try {
    context.store()->wait({everyone}, std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace ddprun::training
