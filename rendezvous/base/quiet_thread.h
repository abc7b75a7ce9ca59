#pragma once

#include "rendezvous/base/blocked_signals.h"

#include <system_error>
#include <thread>
#include <utility>

namespace ddprun {

/// Starts `work` in `thread` with every signal blocked there, so that no signal for this process ends up on
/// it. Returns 0, or the errno of the limit that allows no further thread.
template <class Work>
[[nodiscard]] int start_quietly(std::thread& thread, Work work) {
  const auto inherited = BlockedSignals::all();
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error& limit) {
    return limit.code().value();
  }
  return 0;
}

}  // namespace ddprun
