#include "worker/runtime/checkpoint/storage_type.h"

#include <array>
#include <utility>

namespace ddprun::runtime {
namespace {

constexpr std::array<std::pair<at::ScalarType, std::string_view>, 12> kNames{{
    {at::kFloat, "FloatStorage"},
    {at::kDouble, "DoubleStorage"},
    {at::kHalf, "HalfStorage"},
    {at::kBFloat16, "BFloat16Storage"},
    {at::kLong, "LongStorage"},
    {at::kInt, "IntStorage"},
    {at::kShort, "ShortStorage"},
    {at::kChar, "CharStorage"},
    {at::kByte, "ByteStorage"},
    {at::kBool, "BoolStorage"},
    {at::kComplexFloat, "ComplexFloatStorage"},
    {at::kComplexDouble, "ComplexDoubleStorage"},
}};

}  // namespace

std::optional<std::string_view> storage_name(at::ScalarType type) {
  for (const auto& [candidate, name] : kNames) {
    if (candidate == type) return name;
  }
  return std::nullopt;
}

std::optional<at::ScalarType> scalar_type_of_storage(std::string_view name) {
  for (const auto& [type, candidate] : kNames) {
    if (candidate == name) return type;
  }
  return std::nullopt;
}

}  // namespace ddprun::runtime
