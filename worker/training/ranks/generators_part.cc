#include "worker/training/ranks/generators_part.h"

#include "worker/training/ranks/rank_part.h"

#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {

std::unique_ptr<SavedPart> generators_part(const Context& context, const RankBlock& block,
                                           Generators& generators,
                                           std::function<std::uint64_t(int rank)> fresh_seed) {
  RankPart::Bytes bytes{.get = [&generators] { return generators.states(); },
                        .take = [&generators](const std::vector<std::string>& states,
                                              std::size_t) { return generators.set_states(states); },
                        .begin_anew =
                            [&generators, block, fresh_seed = std::move(fresh_seed)] {
                              generators.seed([&](std::size_t turn) { return fresh_seed(block.rank(turn)); });
                            },
                        .misfit = "its generators are of another kind of device"};
  return std::make_unique<RankPart>("rng", context, block, std::move(bytes));
}

}  // namespace ddprun::training
