#pragma once

#include "rendezvous/base/clock.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ddprun::runtime::shm {

/// Who sleeps wakes this often and looks whether a peer is dead.
inline constexpr Duration kWatchInterval = std::chrono::milliseconds(5);

inline TimePoint now() { return BootClock::now(); }

/// From now on; never, where there is no such time.
inline TimePoint after(Duration timeout) {
  const TimePoint start = now();
  return timeout >= TimePoint::max() - start ? TimePoint::max() : start + timeout;
}

/// Sleeps while `word` holds `expected`, at most for `at_most`; may wake without a reason. The word may be
/// shared between processes. See futex(2).
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration at_most);

/// Wakes everyone who sleeps on `word`.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace ddprun::runtime::shm
