#pragma once

#include <sys/socket.h>
#include <sys/types.h>

namespace ddprun::launcher {

/// What the guard is told: a worker's session began or ended.
struct GuardMessage {
  enum class Kind : int { kSessionBegan, kSessionEnded };
  Kind kind;
  pid_t pid = 0;  ///< of the session
};

/// Async-signal-safe. A guard that does not read is as good as none, and its owner learns of its death
/// elsewhere.
inline void tell_guard(int socket, GuardMessage message) {
  if (socket >= 0) ::send(socket, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace ddprun::launcher
