#pragma once

#include "worker/runtime/comm/shm/collective.h"

namespace ddprun::runtime::shm {

/// A barrier: the gate is all there is to it.
class GateOnly final : public Collective {
 public:
  [[nodiscard]] Description describe() const override { return {}; }
  void contribute(Group&, Post&) override {}
  Result<void> complete(Group&) override { return ok(); }
};

}  // namespace ddprun::runtime::shm
