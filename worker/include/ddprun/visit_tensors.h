#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {

/// Calls `visit(at::Tensor&)` for every tensor inside a value: a tensor, vector, array, map, pair, tuple or
/// optional of such, nested as you like. For a type of your own, define `visit_tensors(YourType&, Visit)`
/// beside it.
template <class Visit>
void visit_tensors(at::Tensor& tensor, Visit&& visit) {
  visit(tensor);
}

template <class T, class Visit>
requires std::is_arithmetic_v<T>
void visit_tensors(T&, Visit&&) {}

template <class Visit>
void visit_tensors(std::string&, Visit&&) {}

template <class T, class Visit>
void visit_tensors(std::vector<T>& values, Visit&& visit);
template <class T, std::size_t N, class Visit>
void visit_tensors(std::array<T, N>& values, Visit&& visit);
template <class K, class T, class Visit>
void visit_tensors(std::map<K, T>& values, Visit&& visit);
template <class K, class T, class Visit>
void visit_tensors(std::unordered_map<K, T>& values, Visit&& visit);
template <class T, class Visit>
void visit_tensors(std::optional<T>& value, Visit&& visit);
template <class A, class B, class Visit>
void visit_tensors(std::pair<A, B>& value, Visit&& visit);
template <class... T, class Visit>
void visit_tensors(std::tuple<T...>& value, Visit&& visit);

template <class T, class Visit>
void visit_tensors(std::vector<T>& values, Visit&& visit) {
  for (T& value : values) visit_tensors(value, visit);
}

template <class T, std::size_t N, class Visit>
void visit_tensors(std::array<T, N>& values, Visit&& visit) {
  for (T& value : values) visit_tensors(value, visit);
}

template <class K, class T, class Visit>
void visit_tensors(std::map<K, T>& values, Visit&& visit) {
  for (auto& [key, value] : values) visit_tensors(value, visit);
}

template <class K, class T, class Visit>
void visit_tensors(std::unordered_map<K, T>& values, Visit&& visit) {
  for (auto& [key, value] : values) visit_tensors(value, visit);
}

template <class T, class Visit>
void visit_tensors(std::optional<T>& value, Visit&& visit) {
  if (value) visit_tensors(*value, visit);
}

template <class A, class B, class Visit>
void visit_tensors(std::pair<A, B>& value, Visit&& visit) {
  visit_tensors(value.first, visit);
  visit_tensors(value.second, visit);
}

template <class... T, class Visit>
void visit_tensors(std::tuple<T...>& value, Visit&& visit) {
  std::apply([&](T&... element) { (visit_tensors(element, visit), ...); }, value);
}

}  // namespace ddprun
