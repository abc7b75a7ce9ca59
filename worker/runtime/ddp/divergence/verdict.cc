#include "worker/runtime/ddp/divergence/verdict.h"

#include <fmt/format.h>

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

std::optional<Verdict> judge_replicas(const std::vector<std::vector<TensorHash>>& hashes) {
  Verdict verdict;
  for (const auto& list : hashes) verdict.tensors = std::max(verdict.tensors, list.size());
  for (std::size_t index = verdict.tensors; index-- > 0;) {
    const std::vector<int> party = parties(hashes, index);
    if (std::all_of(party.begin(), party.end(), [](int lowest) { return lowest == 0; })) continue;
    ++verdict.unequal;
    verdict.index = index;
    verdict.reference = largest_party(party);
    verdict.differing.clear();
    for (std::size_t rank = 0; rank < party.size(); ++rank) {
      if (party[rank] != verdict.reference) verdict.differing.push_back(static_cast<int>(rank));
    }
    verdict.is_majority = 2 * verdict.differing.size() < party.size();
  }
  if (verdict.unequal == 0) return std::nullopt;
  return verdict;
}

std::string explain(const Verdict& verdict, const Telling& telling) {
  const std::string& expected = telling.descriptions[static_cast<std::size_t>(verdict.reference)];
  const std::string& found = telling.descriptions[static_cast<std::size_t>(verdict.differing.front())];
  const std::size_t others = telling.world_ranks.size() - verdict.differing.size();
  std::string text =
      fmt::format("the replicas have diverged: after step {} {} on {} differs from {}", telling.step,
                  expected.empty() ? found : expected, ranks_text(verdict.differing, telling.world_ranks),
                  others == 1 ? ranks_text({verdict.reference}, telling.world_ranks)
                              : fmt::format("the other {} ranks", others));
  if (!verdict.is_majority) text += ", and which of them is right cannot be told";
  if (expected.empty()) {
    text += ": the others do not have it";
  } else if (found.empty()) {
    text += ": there is none";
  } else if (found != expected) {
    text += ": there it is " + found;
  }
  if (verdict.unequal > 1) {
    text += fmt::format("; {} of {} tensors differ, this one first", verdict.unequal, verdict.tensors);
  } else if (verdict.tensors > 1) {
    text += "; all other tensors are equal";
  }
  if (telling.last_equal_step)
    text += fmt::format("; all were equal after step {}", *telling.last_equal_step);
  return text + "; look for broken hardware there, or for code that runs on some ranks only";
}

}  // namespace ddprun::runtime
