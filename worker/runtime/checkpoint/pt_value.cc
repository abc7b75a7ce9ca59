#include <ddprun/exception.h>
#include <ddprun/pt_value.h>

#include <fmt/format.h>

namespace ddprun {
namespace {

template <class T>
const T& expect(const PtValue& value, std::string_view expected) {
  if (const T* found = std::get_if<T>(&value.alternatives())) return *found;
  throw Exception(ErrorCode::kCorrupt, fmt::format("expected {}, found {}", expected, value.kind()));
}

}  // namespace

void PtDict::set(PtValue key, PtValue value) { entries.emplace_back(std::move(key), std::move(value)); }

const PtValue* PtDict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    const auto* text = std::get_if<std::string>(&name.alternatives());
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

const PtValue* PtDict::find(std::int64_t key) const {
  for (const auto& [name, value] : entries) {
    const auto* number = std::get_if<std::int64_t>(&name.alternatives());
    if (number != nullptr && *number == key) return &value;
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
