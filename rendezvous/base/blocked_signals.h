#pragma once

#include <csignal>
#include <initializer_list>

namespace ddprun {

/// Keeps signals from this thread while it lives, and for ever from the threads that are started meanwhile: a thread
/// takes its starter's mask.
class BlockedSignals {
 public:
  explicit BlockedSignals(std::initializer_list<int> signals) {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    for (const int signal : signals) ::sigaddset(&blocked, signal);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  static BlockedSignals all() { return BlockedSignals(); }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  BlockedSignals() {
    sigset_t every;
    ::sigfillset(&every);
    ::pthread_sigmask(SIG_SETMASK, &every, &before_);
  }

  sigset_t before_{};
};

}  // namespace ddprun
