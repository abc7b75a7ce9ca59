#pragma once

#include "rendezvous/base/result.h"
#include "worker/runtime/comm/shm/description.h"

namespace ddprun::runtime::shm {

class Group;
struct Post;

/// One collective as one rank sees it: its arguments, and what to do before and after all ranks have come.
///
/// The memory in the arguments stays valid until complete() has returned or the collective is dropped.
/// Nothing of the caller's is written before complete(), which runs only when all ranks described the same
/// collective.
class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  [[nodiscard]] virtual Description describe() const = 0;
  /// Puts into `post` and the slots what the peers need first. Never waits.
  virtual void contribute(Group& group, Post& post) = 0;
  /// The rest, between all ranks: may meet further barriers.
  virtual Result<void> complete(Group& group) = 0;
};

}  // namespace ddprun::runtime::shm
