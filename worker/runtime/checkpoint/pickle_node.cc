#include "worker/runtime/checkpoint/pickle_node.h"

#include "worker/runtime/checkpoint/dict_key.h"

#include <map>

namespace ddprun::runtime::pickled {
namespace {

constexpr int kMaxDepth = 200;
// A reference of two bytes may stand for a value and a short text; a checkpoint repeats its keys that way.
constexpr std::size_t kBytesPerByte = 64;
constexpr std::size_t kBytesForAnyFile = std::size_t{64} << 20;

class ValueMaker {
 public:
  explicit ValueMaker(Budget& budget) : budget_(budget) {}

  PtValue to_value(const Node& node, int depth) {
    if (depth > kMaxDepth) fail(fmt::format("its containers are nested more than {} deep", kMaxDepth));
    budget_.spend(sizeof(PtValue));
    return std::visit([&](const auto& alternative) { return convert(alternative, depth); }, node.content);
  }

 private:
  template <class T>
  PtValue convert(const T& scalar, int) {
    return PtValue(scalar);
  }
  PtValue convert(const std::string& text, int) {
    budget_.spend(text.size());
    return PtValue(text);
  }
  PtValue convert(std::monostate, int) { return {}; }
  PtValue convert(Mark, int) { fail("data.pkl leaves a mark on its stack"); }
  PtValue convert(const Global& global, int) { fail(fmt::format("it refers to Python's {}", global.name)); }
  PtValue convert(const Storage& storage, int) { return storage.tensor; }
  PtValue convert(const ArrayType&, int) { fail("it refers to a type of numpy"); }
  PtValue convert(EmptyArray, int) { fail("it holds an array without its content"); }
  PtValue convert(const Sequence& sequence, int depth) {
    std::vector<PtValue> items;
    for (const Node* item : sequence.items) items.push_back(to_value(*item, depth + 1));
    if (sequence.is_tuple) return PtTuple{std::move(items)};
    return PtList{std::move(items)};
  }
  PtValue convert(const Mapping& mapping, int depth) {
    PtDict dict;
    dict.ordered = mapping.ordered;
    std::map<std::string, std::size_t> places;  // one of hashes could be made slow by who chooses the keys
    for (const auto& [key_node, value_node] : mapping.entries) {
      PtValue key = to_value(*key_node, depth + 1);
      PtValue value = to_value(*value_node, depth + 1);
      auto text = key_text(key);
      if (text) {
        budget_.spend(text->size());
        const auto [place, is_new] = places.try_emplace(std::move(*text), dict.entries.size());
        if (!is_new) {
          dict.entries[place->second].second = std::move(value);
          continue;
        }
      }
      dict.add(std::move(key), std::move(value));
    }
    return dict;
  }

  Budget& budget_;
};

}  // namespace

void Budget::spend(std::size_t bytes) {
  const std::size_t budget = kBytesForAnyFile + kBytesPerByte * pickle_bytes_;
  spent_ += bytes;
  if (spent_ <= budget) return;
  fail(
      fmt::format("it stands for more than {} bytes of values, and its data.pkl has {}; repeated "
                  "references make it grow",
                  budget, pickle_bytes_));
}

PtValue to_value(const Node& node, Budget& budget) { return ValueMaker(budget).to_value(node, 0); }

}  // namespace ddprun::runtime::pickled
