#pragma once

#include "rendezvous/base/clock.h"

namespace ddprun::testing {

/// A clock that stands still until a test moves it.
class FakeClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

}  // namespace ddprun::testing
