#include "worker/training/ranks/rank_block.h"

#include <ddprun/exception.h>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace ddprun::training {
namespace {

/// "1, 2 or 4": those that `whole` can be dealt out to.
std::string divisors_in_words(std::int64_t whole) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t part = 1; part <= whole; ++part) {
    if (whole % part == 0) divisors.push_back(part);
  }
  std::string words = std::to_string(divisors.front());
  for (std::size_t i = 1; i < divisors.size(); ++i)
    words += (i + 1 == divisors.size() ? " or " : ", ") + std::to_string(divisors[i]);
  return words;
}

}  // namespace

RankBlock rank_block(std::int64_t virtual_ranks, const ProcessSeat& seat) {
  if (virtual_ranks == 0) return {.ranks = seat.world_size, .first = seat.rank};
  if (virtual_ranks % seat.world_size != 0) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("/train/virtual_ranks: {} virtual rank{} cannot be dealt out evenly to {} "
                                "processes; start the job with {} of them, or set this to a multiple of {}",
                                virtual_ranks, virtual_ranks == 1 ? "" : "s", seat.world_size,
                                divisors_in_words(virtual_ranks), seat.world_size));
  }
  const auto count = static_cast<int>(virtual_ranks / seat.world_size);
  return {.ranks = static_cast<int>(virtual_ranks),
          .first = seat.rank * count,
          .count = static_cast<std::size_t>(count),
          .is_virtual = true};
}

RankBlock rank_block(const Options& job, const Context& context) {
  return rank_block(job.object("train").integer("virtual_ranks"),
                    {.rank = context.rank(), .world_size = context.world_size()});
}

}  // namespace ddprun::training
