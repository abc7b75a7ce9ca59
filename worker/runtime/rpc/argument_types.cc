#include "worker/runtime/rpc/argument_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace ddprun::runtime {
namespace {

using c10::TypeKind;

bool is_basic(const c10::Type& type) {
  constexpr std::array kBasic{TypeKind::TensorType, TypeKind::IntType, TypeKind::FloatType,
                              TypeKind::BoolType, TypeKind::StringType};
  return std::ranges::find(kBasic, type.kind()) != kBasic.end();
}

/// libtorch converts a list by the type that it names for its elements.
bool list_fits(const c10::List<c10::IValue>& list, const c10::Type& element) {
  return !is_basic(element) || list.elementType()->isSubtypeOf(element);
}
bool dict_fits(const c10::Dict<c10::IValue, c10::IValue>& dict, const c10::DictType& expected) {
  return (!is_basic(*expected.getKeyType()) || dict.keyType()->isSubtypeOf(*expected.getKeyType())) &&
         (!is_basic(*expected.getValueType()) || dict.valueType()->isSubtypeOf(*expected.getValueType()));
}

bool tuple_fits(const c10::ivalue::TupleElements& elements, c10::ArrayRef<c10::TypePtr> expected) {
  if (elements.size() != expected.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!fits(elements[i], *expected[i])) return false;
  }
  return true;
}

/// A tensor's own type has its sizes as well.
std::string name_of_type(const c10::IValue& argument) {
  return argument.isTensor() ? c10::TensorType::get()->str() : argument.type()->str();
}
std::string name_of_type(const c10::TypePtr& type) { return type->str(); }

template <class T>
std::string signature(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const T& one : all) names.push_back(name_of_type(one));
  return fmt::format("({})", fmt::join(names, ", "));
}

}  // namespace

bool fits(const c10::IValue& argument, const c10::Type& expected) {
  const TypeKind kind = expected.kind();
  if (kind == TypeKind::TensorType) return argument.isTensor();
  if (kind == TypeKind::IntType) return argument.isInt() || argument.isSymInt();
  if (kind == TypeKind::FloatType) return argument.isScalar();
  if (kind == TypeKind::BoolType) return argument.isBool() || argument.isSymBool();
  if (kind == TypeKind::StringType) return argument.isString();
  if (kind == TypeKind::RRefType) return argument.isRRef();
  if (kind == TypeKind::ComplexType) return argument.isComplexDouble();
  if (kind == TypeKind::DictType)
    return argument.isGenericDict() &&
           dict_fits(argument.toGenericDict(), expected.expectRef<c10::DictType>());
  if (kind == TypeKind::ClassType) return argument.isObject() && argument.type()->isSubtypeOf(expected);
  if (kind == TypeKind::ListType)
    return argument.isList() &&
           list_fits(argument.toList(), *expected.expectRef<c10::ListType>().getElementType());
  if (kind == TypeKind::TupleType)
    return argument.isTuple() &&
           tuple_fits(argument.toTupleRef().elements(), expected.expectRef<c10::TupleType>().elements());
  if (kind == TypeKind::OptionalType)
    return argument.isNone() || fits(argument, *expected.expectRef<c10::OptionalType>().getElementType());
  return true;
}

bool fit(const std::vector<c10::IValue>& arguments, const std::vector<c10::TypePtr>& expected) {
  return std::ranges::equal(arguments, expected, [](const c10::IValue& argument, const c10::TypePtr& type) {
    return fits(argument, *type);
  });
}

std::string signature_of(const std::vector<c10::IValue>& arguments) { return signature(arguments); }
std::string signature_of(const std::vector<c10::TypePtr>& types) { return signature(types); }

}  // namespace ddprun::runtime
