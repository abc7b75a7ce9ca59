#pragma once

#include <ddprun/visit_tensors.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

/// How DistributedDataParallel hands a model inputs that were moved or cast.
namespace ddprun::runtime {

/// True where visit_tensors reaches every tensor of a T that can be copied.
template <class T>
concept Visited = std::is_copy_constructible_v<T> && requires(T& value) {
  visit_tensors(value, [](at::Tensor&) {});
};
template <class T>
struct CanVisit : std::bool_constant<Visited<T>> {};
template <class T>
struct CanVisit<T&> : std::false_type {};
template <class T>
struct CanVisit<std::vector<T>> : CanVisit<T> {};
template <class T, std::size_t N>
struct CanVisit<std::array<T, N>> : CanVisit<T> {};
template <class K, class T>
struct CanVisit<std::map<K, T>> : CanVisit<T> {};
template <class K, class T>
struct CanVisit<std::unordered_map<K, T>> : CanVisit<T> {};
template <class T>
struct CanVisit<std::optional<T>> : CanVisit<T> {};
template <class A, class B>
struct CanVisit<std::pair<A, B>> : std::conjunction<CanVisit<A>, CanVisit<B>> {};
template <class... T>
struct CanVisit<std::tuple<T...>> : std::conjunction<CanVisit<T>...> {};

/// A copy in which every tensor is what `place` makes of it; what is not made of tensors stays a reference.
template <class Place, class Arg>
decltype(auto) placed(Place& place, Arg&& arg) {
  using Value = std::remove_cvref_t<Arg>;
  if constexpr (CanVisit<Value>::value) {
    Value copy = std::forward<Arg>(arg);
    visit_tensors(copy, [&](at::Tensor& tensor) { tensor = place(tensor); });
    return copy;
  } else {
    return std::forward<Arg>(arg);
  }
}

/// Calls `function` with the placed arguments, each an lvalue, const or neither as the given one is.
template <class Place, class Function, class... Args>
auto with_placed_inputs(Place&& place, Function&& function, Args&&... args) {
  std::tuple<decltype(placed(place, std::forward<Args>(args)))...> values{
      placed(place, std::forward<Args>(args))...};
  return std::apply([&](auto&... value) { return function(static_cast<Args&&>(value)...); }, values);
}

}  // namespace ddprun::runtime
