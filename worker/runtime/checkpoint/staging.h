#pragma once

#include <ddprun/pt_value.h>

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

namespace ddprun::runtime {

/// Host memory for copies of values, kept from one to the next: the second copy of a model's state allocates nothing.
class Staging {
 public:
  /// `value` as it is now, whatever its tensors become: contiguous, on the CPU; from a GPU through pinned memory. One
  /// that occurs twice is copied once. Valid until the next call. Blocks for as long as memory is copied.
  PtValue copy(const PtValue& value);

  /// Tensors that the memory was made for, from the beginning.
  [[nodiscard]] std::size_t allocations() const { return allocations_; }

 private:
  struct Visitor;
  at::Tensor copy(const at::Tensor& tensor);

  using Identity =
      std::tuple<const void*, at::ScalarType, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::vector<at::Tensor> pool_;
  std::size_t used_ = 0;
  std::size_t allocations_ = 0;
  std::map<Identity, at::Tensor> copied_;
};

}  // namespace ddprun::runtime
