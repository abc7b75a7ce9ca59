#include "launcher/why/look/memberships.h"

#include "launcher/why/look/recorder_layout.h"
#include "launcher/why/look/standard_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kRegistryNode = kMapElement + 32;
// A tuple of libstdc++ has its last element first: the description, then the name, then the vector of ranks.
constexpr std::size_t kRanksName = kMapElement + 32, kRanksBegin = kMapElement + 64,
                      kRanksNode = kMapElement + 88;

/// "0-3,8" of numbers in any order; empty: there are none.
std::string in_runs(std::vector<std::uint64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (end > i + 1) text += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return text;
}

/// std::vector<uint64_t>; empty: it cannot be one of ranks.
std::string read_ranks(const ReadMemory& memory, Bytes node) {
  constexpr std::uint64_t kMost = 65536, kMostText = 1000;
  const auto begin = value_at<std::uint64_t>(node, kRanksBegin);
  const auto end = value_at<std::uint64_t>(node, kRanksBegin + 8);
  if (end < begin || (end - begin) % sizeof(std::uint64_t) != 0 ||
      end - begin > kMost * sizeof(std::uint64_t))
    return {};
  std::vector<std::uint64_t> ranks((end - begin) / sizeof(std::uint64_t));
  if (!ranks.empty() && !memory(begin, ranks.data(), end - begin)) return {};
  if (std::any_of(ranks.begin(), ranks.end(), [](std::uint64_t rank) { return rank > kMost; })) return {};
  // Half of them would acquit the others.
  const std::string text = in_runs(std::move(ranks));
  return text.size() <= kMostText ? text : std::string();
}

using ByName = std::map<std::string, Membership>;

void read_registry(const ReadMemory& memory, std::uint64_t registry, ByName& groups) {
  const auto nodes = read_map(memory, registry, kRegistryNode);
  if (!nodes) return;
  for (const auto& node : *nodes) {
    const std::optional<std::string> name = read_string(memory, node, kMapElement);
    if (name && !name->empty()) groups[*name].group = *name;
  }
}

void read_ranks_of_groups(const ReadMemory& memory, std::uint64_t recorder, ByName& groups) {
  const auto nodes = read_map(memory, recorder + kRecorderRanks, kRanksNode);
  if (!nodes) return;
  for (const auto& node : *nodes) {
    const std::optional<std::string> name = read_string(memory, node, kRanksName);
    std::string ranks = read_ranks(memory, node);
    if (!name || name->empty() || ranks.empty()) continue;
    Membership& group = groups[*name];
    group.group = *name;
    group.ranks = std::move(ranks);
  }
}

/// Of each group the newest entry, for a name may have been another group's before. Groups that have none are left out
/// where there were more entries than could be read, and those were few.
std::map<std::string, std::int64_t> read_newest(const ReadMemory& memory, const RecorderHead& head,
                                                const ByName& groups) {
  constexpr std::uint64_t kMost = 8192, kEnough = 1000;
  std::map<std::string, std::int64_t> newest;
  const std::uint64_t wanted = head.recorder == 0 ? 0 : std::min(head.count, kMost);
  for (std::uint64_t back = 1; back <= wanted && newest.size() < groups.size(); ++back) {
    std::array<unsigned char, kEntry> entry{};
    if (!memory(head.entry(back), entry.data(), entry.size())) return newest;
    const std::optional<std::string> name = read_string(memory, entry, kEntryGroup);
    if (!name || value_at<unsigned char>(entry, kEntryIsPeer) != 0 || !groups.contains(*name)) continue;
    newest.try_emplace(*name, std::max<std::int64_t>(0, value_at<std::int64_t>(entry, kEntrySequence)));
  }
  if (wanted != head.id && wanted < kEnough) return newest;
  for (const auto& [name, group] : groups) newest.try_emplace(name, 0);
  return newest;
}

}  // namespace

std::vector<Membership> read_memberships(const ReadMemory& memory, const GroupPlaces& places) {
  ByName groups;
  if (places.registry != 0) read_registry(memory, places.registry, groups);
  std::vector<RecorderHead> heads;
  for (const RecorderPlace& place : places.recorders) {
    heads.push_back(read_recorder_head(memory, place.instance));
    if (!heads.back().problem.empty()) return {};
    // Without one nothing was recorded yet.
    if (heads.back().recorder != 0) read_ranks_of_groups(memory, heads.back().recorder, groups);
  }
  for (std::size_t i = 0; i < heads.size(); ++i) {
    for (const auto& [name, number] : read_newest(memory, heads[i], groups))
      groups[name].newest[places.recorders[i].backend] = number;
  }
  std::vector<Membership> found;
  for (auto& [name, group] : groups) {
    if (!group.newest.empty()) found.push_back(std::move(group));
  }
  return found;
}

}  // namespace ddprun::launcher::why
