#pragma once

#include "rendezvous/base/error.h"
#include "rendezvous/membership/types.h"

#include <string>
#include <string_view>
#include <variant>

namespace ddprun::membership {

// What a member tells its agent. Each is an event of the agent's supervisor as well.

struct Waiting {  ///< who is waited for, for people; when it changes
  std::string text;
};
/// Another generation begins, or will; once for each, where this node was in one before.
struct RestartGranted {
  static constexpr std::string_view kName = "restart granted";
  Restart restart{};
};
struct RoundBegins {  ///< start the workers of a new generation; none of an older one is alive
  static constexpr std::string_view kName = "round begins";
  Round round;
};
struct RoundStopped {  ///< in order: SIGTERM, grace, SIGKILL; then `workers_stopped`, or `workers_succeeded`
  static constexpr std::string_view kName = "round stopped";
  std::string why;
};
struct LeaseLost {  ///< kill the workers at once, for the others may go on; then as after RoundStopped
  static constexpr std::string_view kName = "lease lost";
  std::string why;
};
struct JobEnded {  ///< no worker of this node is alive; the last word
  static constexpr std::string_view kName = "job ended";
  JobEnd end{};
};
/// This node cannot be part of the job: refused, no coordinator found, or it is lost for good. No worker of this node
/// is alive; the last word.
struct RendezvousLost {
  static constexpr std::string_view kName = "rendezvous lost";
  Error error;
};
using MemberEvent =
    std::variant<Waiting, RestartGranted, RoundBegins, RoundStopped, LeaseLost, JobEnded, RendezvousLost>;

/// What an agent tells its member.
class MemberWords {
 public:
  virtual ~MemberWords() = default;

  /// The first worker of this node failed; the caller stops the others by itself and then calls
  /// `workers_stopped`.
  virtual void workers_failed(const NodeFailure& failure) = 0;
  /// All of them succeeded, and nothing that they started is alive.
  virtual void workers_succeeded() = 0;
  /// No worker of the generation is alive any more: ready for the next one.
  virtual void workers_stopped() = 0;
  /// This node was told to stop by `signal`; the caller stops its workers by itself.
  virtual void leave(int signal) = 0;
};

}  // namespace ddprun::membership
