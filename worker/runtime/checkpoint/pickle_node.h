#pragma once

#include "worker/runtime/checkpoint/corrupt.h"
#include <ddprun/pt_value.h>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// The objects of a data.pkl while it is read. Pickle shares objects through its memo, and a file may share or nest
// without end. So objects are nodes of an arena, and become values only at the end, where depth is counted and memory
// is held against the file's size.
namespace ddprun::runtime::pickled {

struct Node;
struct Mark {};
struct Global {
  std::string name;
};
struct Sequence {
  std::vector<Node*> items;
  bool is_tuple = false;
};
struct Mapping {
  std::vector<std::pair<Node*, Node*>> entries;
  bool ordered = false;
};
/// A whole storage: a 1-D tensor.
struct Storage {
  at::Tensor tensor;
};
/// numpy's, which says what an array is of.
struct ArrayType {
  std::string name;
};
/// numpy's, before its content has come.
struct EmptyArray {};
struct Node {
  std::variant<Mark, std::monostate, bool, std::int64_t, double, std::string, at::Tensor, Global, Sequence,
               Mapping, Storage, ArrayType, EmptyArray>
      content;
};

/// Thrown while a data.pkl is read only, and turned into an Error by unpickle(): fifty places may fail.
struct Failure {
  Error error;
};
[[noreturn]] inline void fail(std::string message) { throw Failure{corrupt(std::move(message))}; }

template <class T>
T& content(Node* node, std::string_view expected) {
  if (T* found = std::get_if<T>(&node->content)) return *found;
  fail(fmt::format("data.pkl has something else where {} is expected", expected));
}

/// The bytes of the values made so far, held against the size of the data.pkl.
class Budget {
 public:
  explicit Budget(std::size_t pickle_bytes) : pickle_bytes_(pickle_bytes) {}
  void spend(std::size_t bytes);

 private:
  std::size_t pickle_bytes_;
  std::size_t spent_ = 0;
};

/// The value that an object stands for, with all in it.
PtValue to_value(const Node& node, Budget& budget);

}  // namespace ddprun::runtime::pickled
