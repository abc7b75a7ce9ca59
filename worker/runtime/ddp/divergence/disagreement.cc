#include "worker/runtime/ddp/divergence/disagreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

/// By rank: the lowest rank that has the same.
std::vector<int> parties(const std::vector<std::vector<TensorHash>>& hashes, std::size_t index) {
  const auto at = [&](std::size_t rank) {
    return index < hashes[rank].size() ? std::optional(hashes[rank][index]) : std::nullopt;
  };
  std::vector<int> lowest(hashes.size());
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    std::size_t same = 0;
    while (at(same) != at(rank)) ++same;
    lowest[rank] = static_cast<int>(same);
  }
  return lowest;
}

int largest_party(const std::vector<int>& party) {
  std::vector<int> sizes(party.size());
  for (const int lowest : party) ++sizes[static_cast<std::size_t>(lowest)];
  return static_cast<int>(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());
}

std::string ranks_text(const std::vector<int>& ranks, const std::vector<int>& world_ranks) {
  std::vector<int> names;
  for (const int rank : ranks) names.push_back(world_ranks[static_cast<std::size_t>(rank)]);
  return fmt::format("rank{} {}", names.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

}  // namespace

std::optional<Disagreement> judge_replicas(const std::vector<std::vector<TensorHash>>& hashes) {
  Disagreement disagreement;
  for (const auto& list : hashes) disagreement.tensors = std::max(disagreement.tensors, list.size());
  for (std::size_t index = disagreement.tensors; index-- > 0;) {
    const std::vector<int> party = parties(hashes, index);
    if (std::all_of(party.begin(), party.end(), [](int lowest) { return lowest == 0; })) continue;
    ++disagreement.unequal;
    disagreement.index = index;
    disagreement.reference = largest_party(party);
    disagreement.differing.clear();
    for (std::size_t rank = 0; rank < party.size(); ++rank) {
      if (party[rank] != disagreement.reference) disagreement.differing.push_back(static_cast<int>(rank));
    }
    disagreement.is_majority = 2 * disagreement.differing.size() < party.size();
  }
  if (disagreement.unequal == 0) return std::nullopt;
  return disagreement;
}

std::string explain(const Disagreement& disagreement, const Telling& telling) {
  const std::string& expected = telling.descriptions[static_cast<std::size_t>(disagreement.reference)];
  const std::string& found = telling.descriptions[static_cast<std::size_t>(disagreement.differing.front())];
  const std::size_t others = telling.world_ranks.size() - disagreement.differing.size();
  std::string text = fmt::format("the replicas have diverged: after step {} {} on {} differs from {}",
                                 telling.step, expected.empty() ? found : expected,
                                 ranks_text(disagreement.differing, telling.world_ranks),
                                 others == 1 ? ranks_text({disagreement.reference}, telling.world_ranks)
                                             : fmt::format("the other {} ranks", others));
  if (!disagreement.is_majority) text += ", and which of them is right cannot be told";
  if (expected.empty()) {
    text += ": the others do not have it";
  } else if (found.empty()) {
    text += ": there is none";
  } else if (found != expected) {
    text += ": there it is " + found;
  }
  if (disagreement.unequal > 1) {
    text +=
        fmt::format("; {} of {} tensors differ, this one first", disagreement.unequal, disagreement.tensors);
  } else if (disagreement.tensors > 1) {
    text += "; all other tensors are equal";
  }
  if (telling.last_equal_step)
    text += fmt::format("; all were equal after step {}", *telling.last_equal_step);
  return text + "; look for broken hardware there, or for code that runs on some ranks only";
}

}  // namespace ddprun::runtime
