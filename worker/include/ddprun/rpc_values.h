#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/rref_interface.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddprun::rpc {

template <class T>
class Future;
template <class T>
class RRef;

namespace untyped {
[[noreturn]] void refuse_number(std::int64_t number, std::size_t bits, bool has_sign);
c10::TypePtr type_of_optional(const c10::TypePtr& type);
/// Anything for types that name a reference: libtorch reads no list of them.
c10::TypePtr type_in_list(const c10::TypePtr& type);
/// Throws Exception kConfig where it is no tuple of so many.
std::vector<c10::IValue> parts_of_tuple(const c10::IValue& tuple, std::size_t count);
}  // namespace untyped

/// How a C++ type travels: what rpc.h takes as arguments and gives as results.
///
/// Any type that an IValue holds: tensors, whole numbers, floating-point numbers, bool, std::string, c10::IValue
/// itself (anything), RRef<T>, and std::vector, std::optional and std::tuple of all these; c10::Dict of what libtorch
/// itself names (std::int64_t, double). The value of an RRef may be a c10::intrusive_ptr<T> of a class that
/// torch::class_<T> has registered: it stays with its owner, and who passes such a reference on need not have
/// registered the class. libtorch's calls do not take such a value itself, nor a tensor that is not defined.
///
/// Whole numbers travel with 64 bits; those of a std::uint64_t mean what they are taken as. One is taken for a
/// floating-point number as well, also within an optional or a tuple, not within a list.
/// Errors  Exception kConfig: a number that has come does not fit into the type that it is taken as.
template <class T>
struct Wire {
  static c10::TypePtr type() { return c10::getTypePtr<T>(); }
  static c10::IValue pack(T value) { return c10::IValue(std::move(value)); }
  static T unpack(c10::IValue value) { return std::move(value).template to<T>(); }
};

template <std::integral T>
requires(!std::is_same_v<T, bool> && !std::is_same_v<T, std::int64_t>) struct Wire<T> {
  static c10::TypePtr type() { return c10::IntType::get(); }
  static c10::IValue pack(T value) { return static_cast<std::int64_t>(value); }
  static T unpack(const c10::IValue& value) {
    const std::int64_t number = value.toInt();
    const auto taken = static_cast<T>(number);
    if (static_cast<std::int64_t>(taken) != number)
      untyped::refuse_number(number, 8 * sizeof(T), std::is_signed_v<T>);
    return taken;
  }
};

template <std::floating_point T>
struct Wire<T> {
  static c10::TypePtr type() { return c10::FloatType::get(); }
  static c10::IValue pack(T value) { return static_cast<double>(value); }
  static T unpack(const c10::IValue& value) { return static_cast<T>(value.toScalar().toDouble()); }
};

template <>
struct Wire<const char*> {
  static c10::TypePtr type() { return c10::StringType::get(); }
  static c10::IValue pack(const char* value) { return std::string(value); }
};

template <>
struct Wire<void> {
  static c10::TypePtr type() { return c10::NoneType::get(); }
  static void unpack(const c10::IValue&) {}
};

template <>
struct Wire<c10::IValue> {
  static c10::TypePtr type() { return c10::AnyType::get(); }
  static c10::IValue pack(c10::IValue value) { return value; }
  static c10::IValue unpack(c10::IValue value) { return value; }
};

template <class T>
struct Wire<RRef<T>> {
  static c10::TypePtr type() { return c10::RRefType::create(Wire<T>::type()); }
  static c10::IValue pack(const RRef<T>& rref) { return c10::IValue(rref.raw()); }
  static RRef<T> unpack(c10::IValue value) { return RRef<T>(std::move(value).toRRef()); }
};

template <class T>
struct Wire<std::optional<T>> {
  static c10::TypePtr type() { return untyped::type_of_optional(Wire<T>::type()); }
  static c10::IValue pack(std::optional<T> value) {
    return value ? Wire<T>::pack(std::move(*value)) : c10::IValue();
  }
  static std::optional<T> unpack(c10::IValue value) {
    if (value.isNone()) return {};
    return Wire<T>::unpack(std::move(value));
  }
};

template <class T>
struct Wire<std::vector<T>> {
  static c10::TypePtr type() { return c10::ListType::create(untyped::type_in_list(Wire<T>::type())); }
  static c10::IValue pack(std::vector<T> values) {
    c10::impl::GenericList list(untyped::type_in_list(Wire<T>::type()));
    list.reserve(values.size());
    for (auto&& value : values) list.push_back(Wire<T>::pack(std::move(value)));
    return list;
  }
  static std::vector<T> unpack(const c10::IValue& list) {
    std::vector<T> values;
    for (const c10::IValue& value : list.toListRef()) values.push_back(Wire<T>::unpack(value));
    return values;
  }
};

template <class... T>
struct Wire<std::tuple<T...>> {
  static c10::TypePtr type() { return c10::TupleType::create({Wire<T>::type()...}); }
  static c10::IValue pack(std::tuple<T...> values) {
    return std::apply(
        [](auto&... value) {
          return c10::IValue(
              c10::ivalue::Tuple::create(std::vector<c10::IValue>{Wire<T>::pack(std::move(value))...}));
        },
        values);
  }
  static std::tuple<T...> unpack(const c10::IValue& tuple) {
    const std::vector<c10::IValue> parts = untyped::parts_of_tuple(tuple, sizeof...(T));
    return unpack_parts(parts, std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... I>
  static std::tuple<T...> unpack_parts([[maybe_unused]] const std::vector<c10::IValue>& parts,
                                       std::index_sequence<I...>) {
    return {Wire<T>::unpack(parts[I])...};
  }
};

/// The result of a function that answers later: its caller gets the value, once it is there.
template <class T>
struct Wire<Future<T>> {
  static c10::TypePtr type() { return Wire<T>::type(); }
  static c10::IValue pack(const Future<T>& future) { return c10::IValue(future.raw()); }
};

/// What a caller gets of a function that returns R.
template <class R>
struct Answer {
  using Type = std::remove_cvref_t<R>;
};
template <class T>
struct Answer<Future<T>> {
  using Type = T;
};
template <class R>
using AnswerOf = typename Answer<std::remove_cvref_t<R>>::Type;

}  // namespace ddprun::rpc
