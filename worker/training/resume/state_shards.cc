#include "worker/training/resume/state_shards.h"

#include <ddprun/exception.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::training {
namespace {

/// The value with the form of `value`, and `make(i)` as its i-th item. None: it has no items.
std::optional<PtValue> with_items(const PtValue& value, const std::function<PtValue(std::size_t)>& make) {
  const auto items = [&](std::size_t count) {
    std::vector<PtValue> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(make(i));
    return made;
  };
  if (const auto* list = std::get_if<PtList>(&value.alternatives())) return PtList{items(list->items.size())};
  if (const auto* tuple = std::get_if<PtTuple>(&value.alternatives()))
    return PtTuple{items(tuple->items.size())};
  const auto* dict = std::get_if<PtDict>(&value.alternatives());
  if (dict == nullptr) return std::nullopt;
  std::vector<PtValue> made = items(dict->entries.size());
  PtDict of_same_keys{.ordered = dict->ordered};
  for (std::size_t i = 0; i < made.size(); ++i)
    of_same_keys.entries.emplace_back(dict->entries[i].first, std::move(made[i]));
  return of_same_keys;
}

const PtValue& item_of(const PtValue& value, std::size_t index) {
  if (value.is_dict()) {
    const auto& entries = value.as_dict().entries;
    if (index < entries.size()) return entries[index].second;
  } else if (const auto& items = value.as_sequence(); index < items.size()) {
    return items[index];
  }
  throw Exception(ErrorCode::kCorrupt, "the ranks kept states of different forms");
}

/// `bytes` has what each rank keeps of the tensors so far.
PtValue shard_from(const PtValue& whole, int rank, std::vector<std::size_t>& bytes) {
  if (whole.is_tensor()) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += whole.as_tensor().nbytes();
    return least - bytes.begin() == rank ? whole : PtValue();
  }
  return with_items(whole, [&](std::size_t i) { return shard_from(item_of(whole, i), rank, bytes); })
      .value_or(whole);
}

PtValue join_items(const std::vector<const PtValue*>& shards) {
  for (const PtValue* shard : shards) {
    if (shard->is_tensor()) return *shard;
  }
  const auto joined = with_items(*shards.front(), [&](std::size_t i) {
    std::vector<const PtValue*> items;
    for (const PtValue* shard : shards) items.push_back(&item_of(*shard, i));
    return join_items(items);
  });
  return joined.value_or(*shards.front());
}

}  // namespace

PtValue shard_of(const PtValue& whole, int rank, int of) {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(of));
  return shard_from(whole, rank, bytes);
}

PtValue join_shards(const std::vector<PtValue>& shards) {
  std::vector<const PtValue*> all;
  for (const PtValue& shard : shards) all.push_back(&shard);
  return join_items(all);
}

}  // namespace ddprun::training
