#include "worker/runtime/comm/roll_call/await_keys.h"

#include <algorithm>
#include <thread>

namespace ddprun::runtime {

using namespace std::chrono_literals;

Duration pause_after(Duration waited) { return std::clamp<Duration>(waited / 8, 200us, 100ms); }

bool await_keys(c10d::Store& store, const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  const TimePoint start = BootClock::now();
  while (true) {
    const Duration waited = BootClock::now() - start;
    if (store.check(keys)) return true;
    // In milliseconds: a time-out may be longer than nanoseconds can count.
    const std::chrono::milliseconds left = timeout - std::chrono::floor<std::chrono::milliseconds>(waited);
    if (left <= 0ms) return false;
    std::this_thread::sleep_for(
        std::min<Duration>(std::min<std::chrono::milliseconds>(left, 1s), pause_after(waited)));
  }
}

}  // namespace ddprun::runtime
