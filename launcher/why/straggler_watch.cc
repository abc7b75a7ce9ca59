#include "launcher/why/straggler_watch.h"

namespace ddprun::launcher::why {

std::optional<Straggler> StragglerWatch::note(const Straggler& found) {
  if (found.rank != rank_) looks_ = 0;
  rank_ = found.rank;
  if (rank_ < 0 || ++looks_ != kLooks) return std::nullopt;
  return found;
}

}  // namespace ddprun::launcher::why
