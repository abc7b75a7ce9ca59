#pragma once

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun {

/// Starts `work` in `thread` with every signal blocked there, so that no signal for this process ends up on
/// it. Returns 0, or the errno of the limit that allows no further thread.
template <class Work>
[[nodiscard]] int start_quietly(std::thread& thread, Work work) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error& limit) {
    error = limit.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace ddprun
