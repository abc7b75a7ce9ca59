#pragma once

#include "launcher/report/findings.h"

#include <cstdint>
#include <optional>

namespace ddprun::launcher::why {

/// Tells a rank that is late again and again from one that was late once. Pure.
class StragglerWatch {
 public:
  /// Of one look after the other, with how many collectives all ranks had begun: one that has the collectives of the
  /// look before says nothing new. The straggler to tell: it has been that in so many looks in turn, and was not told
  /// since.
  std::optional<Straggler> note(std::uint64_t begun, const Straggler& found);

  static constexpr int kLooks = 3;
  static constexpr std::uint64_t kFewest = 4;  ///< collectives from one look to the next

 private:
  std::uint64_t begun_ = 0;
  int rank_ = -1;
  int looks_ = 0;
};

}  // namespace ddprun::launcher::why
