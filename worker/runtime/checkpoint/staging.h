#pragma once

#include <ddprun/pt_value.h>

#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

namespace ddprun::runtime {

/// Host memory for copies of values, kept from one to the next: the second copy of a model's state allocates nothing.
///
/// Memory  in slabs, each a power of two, because pinned memory comes in such sizes: tensors share them, and of all
///         slabs together at most about a quarter is not used.
class Staging {
 public:
  /// `value` as it is now, whatever its tensors become: contiguous, on the CPU; from a GPU through pinned memory. One
  /// that occurs twice is copied once. Valid until the next call. Blocks for as long as memory is copied.
  PtValue copy(const PtValue& value);

  /// Slabs that there are, and their bytes.
  [[nodiscard]] std::size_t slabs() const { return slabs_[0].size() + slabs_[1].size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Visitor;
  struct Slab {
    at::Tensor memory;
    std::size_t used = 0;  ///< bytes, of the current copy
  };
  at::Tensor copy(const at::Tensor& tensor);
  at::Tensor place_for(const at::Tensor& tensor);
  Slab& slab_with(std::size_t bytes, bool is_pinned);

  /// Memory, and how it is read: a conjugate or an imaginary part may be a view that differs in a bit alone.
  using Identity = std::tuple<const void*, at::ScalarType, std::vector<std::int64_t>,
                              std::vector<std::int64_t>, bool, bool>;
  std::array<std::vector<Slab>, 2> slabs_;  ///< not pinned, and pinned
  std::size_t bytes_ = 0;
  std::map<Identity, at::Tensor> copied_;
};

}  // namespace ddprun::runtime
