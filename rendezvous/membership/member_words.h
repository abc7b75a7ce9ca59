#pragma once

#include "rendezvous/membership/types.h"

namespace ddprun::membership {

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
