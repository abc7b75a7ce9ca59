#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

class PtValue;

/// A Python list.
struct PtList {
  std::vector<PtValue> items;
};

/// A Python tuple.
struct PtTuple {
  std::vector<PtValue> items;
};

/// A Python dict or OrderedDict, in insertion order.
struct PtDict {
  std::vector<std::pair<PtValue, PtValue>> entries;
  bool ordered = false;  ///< collections.OrderedDict: what state_dict() is

  /// The value at `key` is `value` from now on, as in Python: an equal key (1, 1.0 and True are) keeps its place.
  void set(PtValue key, PtValue value);
  /// The same for a key that is known not to be there, without a look through all entries: what makes large dicts.
  void add(PtValue key, PtValue value);
  /// The value at a string or number, or nullptr.
  [[nodiscard]] const PtValue* find(std::string_view key) const;
  [[nodiscard]] const PtValue* find(std::int64_t key) const;
  /// As `find`; throws Exception kCorrupt naming the key when it is missing.
  [[nodiscard]] const PtValue& at(std::string_view key) const;
};

/// What a `.pt` file holds: the values Python's torch.load gives with weights_only=True.
///
/// The `as_` functions throw Exception kCorrupt, saying what was expected and what was found.
class PtValue {
 public:
  PtValue() = default;  ///< None
  PtValue(bool value) : value_(value) {}
  PtValue(int value) : value_(std::int64_t{value}) {}
  PtValue(std::int64_t value) : value_(value) {}
  PtValue(double value) : value_(value) {}
  PtValue(std::string value) : value_(std::move(value)) {}
  PtValue(const char* value) : value_(std::string(value)) {}
  PtValue(at::Tensor value) : value_(std::move(value)) {}
  PtValue(PtList value) : value_(std::move(value)) {}
  PtValue(PtTuple value) : value_(std::move(value)) {}
  PtValue(PtDict value) : value_(std::move(value)) {}

  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool is_tensor() const { return std::holds_alternative<at::Tensor>(value_); }
  [[nodiscard]] bool is_dict() const { return std::holds_alternative<PtDict>(value_); }

  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int() const;
  [[nodiscard]] double as_double() const;  ///< an int is one, too
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const at::Tensor& as_tensor() const;
  [[nodiscard]] const std::vector<PtValue>& as_sequence() const;  ///< of a list or a tuple
  [[nodiscard]] const PtDict& as_dict() const;

  /// "a dict", "an int" …: for messages.
  [[nodiscard]] std::string_view kind() const;

  using Alternatives = std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor,
                                    PtList, PtTuple, PtDict>;
  [[nodiscard]] const Alternatives& alternatives() const { return value_; }

 private:
  Alternatives value_;
};

}  // namespace ddprun
