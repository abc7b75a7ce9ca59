#pragma once

#include "launcher/report/findings.h"

#include <optional>

namespace ddprun::launcher::why {

/// Tells a rank that is late again and again from one that was late once. Pure.
class StragglerWatch {
 public:
  /// Of one look after the other, in which the ranks had got on. The one to tell: it has been the straggler so often in
  /// turn, and was not told since it became that.
  std::optional<Straggler> note(const Straggler& found);

  static constexpr int kLooks = 3;

 private:
  int rank_ = -1;
  int looks_ = 0;
};

}  // namespace ddprun::launcher::why
