#include "launcher/why/verdict/straggler_watch.h"

namespace ddprun::launcher::why {

std::optional<Straggler> StragglerWatch::note(std::uint64_t begun, const Straggler& found) {
  if (begun >= begun_ && begun - begun_ < kFewest) return std::nullopt;
  begun_ = begun;
  if (found.rank != rank_) looks_ = 0;
  rank_ = found.rank;
  if (rank_ < 0 || ++looks_ != kLooks) return std::nullopt;
  return found;
}

}  // namespace ddprun::launcher::why
