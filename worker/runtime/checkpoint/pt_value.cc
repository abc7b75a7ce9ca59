#include "worker/runtime/checkpoint/dict_key.h"
#include <ddprun/exception.h>
#include <ddprun/pt_value.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ddprun {
namespace {

template <class T>
const T& expect(const PtValue& value, std::string_view expected) {
  if (const T* found = std::get_if<T>(&value.alternatives())) return *found;
  throw Exception(ErrorCode::kCorrupt, fmt::format("expected {}, found {}", expected, value.kind()));
}

}  // namespace

namespace runtime {

std::optional<std::int64_t> whole_number(const PtValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value.alternatives())) return *number;
  if (const auto* truth = std::get_if<bool>(&value.alternatives())) return *truth ? 1 : 0;
  const auto* number = std::get_if<double>(&value.alternatives());
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (number == nullptr || *number < -kTwoTo63 || *number >= kTwoTo63 || std::trunc(*number) != *number)
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

namespace {

/// Appends a text that says where it ends, so that those of a tuple's items stand side by side. False: `key` has none.
bool append_key_text(const PtValue& key, std::string& to) {
  const auto into = std::back_inserter(to);
  const auto* text = std::get_if<std::string>(&key.alternatives());
  const auto* real = std::get_if<double>(&key.alternatives());
  const auto* tuple = std::get_if<PtTuple>(&key.alternatives());
  if (const auto number = whole_number(key)) {
    fmt::format_to(into, "i{};", *number);
  } else if (text != nullptr) {
    fmt::format_to(into, "s{}:", text->size());
    to += *text;
  } else if (key.is_none()) {
    to += 'n';
  } else if (real != nullptr && !std::isnan(*real)) {
    fmt::format_to(into, "d{:a};", *real);
  } else if (tuple != nullptr) {
    fmt::format_to(into, "t{}:", tuple->items.size());
    return std::ranges::all_of(tuple->items, [&](const PtValue& item) { return append_key_text(item, to); });
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> key_text(const PtValue& key) {
  std::string text;
  if (!append_key_text(key, text)) return std::nullopt;
  return text;
}

}  // namespace runtime

void PtDict::add(PtValue key, PtValue value) { entries.emplace_back(std::move(key), std::move(value)); }

void PtDict::set(PtValue key, PtValue value) {
  // Nearly all keys are texts: these are compared as they are.
  const auto* const text = std::get_if<std::string>(&key.alternatives());
  const std::optional<std::string> wanted = text == nullptr ? runtime::key_text(key) : std::nullopt;
  const auto is_wanted = [&](const PtValue& name) {
    const auto* const other = std::get_if<std::string>(&name.alternatives());
    if (text != nullptr || other != nullptr) return text != nullptr && other != nullptr && *text == *other;
    return wanted && wanted == runtime::key_text(name);
  };
  for (auto& [name, old] : entries) {
    if (!is_wanted(name)) continue;
    old = std::move(value);
    return;
  }
  add(std::move(key), std::move(value));
}

const PtValue* PtDict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    const auto* text = std::get_if<std::string>(&name.alternatives());
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

const PtValue* PtDict::find(std::int64_t key) const {
  for (const auto& [name, value] : entries) {
    if (runtime::whole_number(name) == key) return &value;
  }
  return nullptr;
}

const PtValue& PtDict::at(std::string_view key) const {
  if (const PtValue* value = find(key)) return *value;
  throw Exception(ErrorCode::kCorrupt, fmt::format("there is no \"{}\" in it", key));
}

bool PtValue::as_bool() const { return expect<bool>(*this, "a bool"); }
std::int64_t PtValue::as_int() const { return expect<std::int64_t>(*this, "an int"); }
const std::string& PtValue::as_string() const { return expect<std::string>(*this, "a str"); }
const at::Tensor& PtValue::as_tensor() const { return expect<at::Tensor>(*this, "a tensor"); }
const PtDict& PtValue::as_dict() const { return expect<PtDict>(*this, "a dict"); }

double PtValue::as_double() const {
  if (const auto* number = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*number);
  return expect<double>(*this, "a float");
}

const std::vector<PtValue>& PtValue::as_sequence() const {
  if (const auto* tuple = std::get_if<PtTuple>(&value_)) return tuple->items;
  return expect<PtList>(*this, "a list").items;
}

std::string_view PtValue::kind() const {
  struct Name {
    std::string_view operator()(std::monostate) const { return "None"; }
    std::string_view operator()(bool) const { return "a bool"; }
    std::string_view operator()(std::int64_t) const { return "an int"; }
    std::string_view operator()(double) const { return "a float"; }
    std::string_view operator()(const std::string&) const { return "a str"; }
    std::string_view operator()(const at::Tensor&) const { return "a tensor"; }
    std::string_view operator()(const PtList&) const { return "a list"; }
    std::string_view operator()(const PtTuple&) const { return "a tuple"; }
    std::string_view operator()(const PtDict&) const { return "a dict"; }
  };
  return std::visit(Name{}, value_);
}

}  // namespace ddprun
