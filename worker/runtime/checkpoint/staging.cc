#include "worker/runtime/checkpoint/staging.h"

#include <ATen/ops/empty.h>

#include <variant>

namespace ddprun::runtime {

struct Staging::Visitor {
  Staging& staging;

  PtValue operator()(const at::Tensor& tensor) { return staging.copy(tensor); }
  PtValue operator()(const PtList& list) { return PtList{copy_all(list.items)}; }
  PtValue operator()(const PtTuple& tuple) { return PtTuple{copy_all(tuple.items)}; }
  PtValue operator()(const PtDict& dict) {
    PtDict copied{.ordered = dict.ordered};
    copied.entries.reserve(dict.entries.size());
    for (const auto& [key, value] : dict.entries) copied.entries.emplace_back(key, visit(value));
    return copied;
  }
  PtValue operator()(std::monostate /*none*/) { return {}; }
  template <class Other>
  PtValue operator()(const Other& other) {
    return other;
  }

  PtValue visit(const PtValue& value) { return std::visit(*this, value.alternatives()); }
  std::vector<PtValue> copy_all(const std::vector<PtValue>& values) {
    std::vector<PtValue> copied;
    copied.reserve(values.size());
    for (const PtValue& value : values) copied.push_back(visit(value));
    return copied;
  }
};

PtValue Staging::copy(const PtValue& value) {
  used_ = 0;
  copied_.clear();
  return Visitor{*this}.visit(value);
}

at::Tensor Staging::copy(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return tensor;  // who writes it refuses it
  const Identity identity{tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(),
                          tensor.strides().vec()};
  if (const auto found = copied_.find(identity); found != copied_.end()) return found->second;
  const at::NoGradGuard no_grad;
  const bool is_pinned = tensor.is_cuda();
  if (used_ == pool_.size()) pool_.emplace_back();
  at::Tensor& place = pool_[used_++];
  const bool fits = place.defined() && place.scalar_type() == tensor.scalar_type() &&
                    place.sizes() == tensor.sizes() && place.is_pinned() == is_pinned;
  if (!fits) {
    place =
        at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(is_pinned));
    ++allocations_;
  }
  place.copy_(tensor.detach());
  copied_.emplace(identity, place);
  return place;
}

}  // namespace ddprun::runtime
