#pragma once

#include "rendezvous/base/clock.h"

#include <atomic>
#include <cstdint>

namespace ddprun::runtime::shm {

/// Sleeps while `word` holds `expected`, at most for `at_most`; may wake without a reason. The word may be
/// shared between processes. See futex(2).
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration at_most);

/// Wakes everyone who sleeps on `word`.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace ddprun::runtime::shm
