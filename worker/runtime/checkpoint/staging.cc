#include "worker/runtime/checkpoint/staging.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <variant>

namespace ddprun::runtime {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLeastSlab = 1 << 20;
/// A slab more is this part of those that there are.
constexpr std::size_t kPart = 8;

}  // namespace

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
  for (auto& kind : slabs_) {
    for (Slab& slab : kind) slab.used = 0;
  }
  copied_.clear();
  return Visitor{*this}.visit(value);
}

at::Tensor Staging::copy(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return tensor;  // who writes it refuses it
  const Identity identity{tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(),
                          tensor.strides().vec(),  tensor.is_conj(),     tensor.is_neg()};
  if (const auto found = copied_.find(identity); found != copied_.end()) return found->second;
  const at::NoGradGuard no_grad;
  const at::Tensor place = place_for(tensor);
  place.copy_(tensor.detach());
  copied_.emplace(identity, place);
  return place;
}

// Where the sizes are those of the copy before, so are the places.
at::Tensor Staging::place_for(const at::Tensor& tensor) {
  const at::TensorOptions options = at::TensorOptions().dtype(tensor.scalar_type());
  const std::size_t bytes = (tensor.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes == 0) return at::empty(tensor.sizes(), options);
  Slab& slab = slab_with(bytes, tensor.is_cuda());
  std::byte* const begin = static_cast<std::byte*>(slab.memory.mutable_data_ptr()) + slab.used;
  slab.used += bytes;
  return at::from_blob(
      begin, tensor.sizes(), [kept = slab.memory](void*) {}, options);
}

Staging::Slab& Staging::slab_with(std::size_t bytes, bool is_pinned) {
  std::vector<Slab>& slabs = slabs_[is_pinned ? 1 : 0];
  const auto found = std::find_if(slabs.begin(), slabs.end(), [&](const Slab& slab) {
    return slab.memory.nbytes() - slab.used >= bytes;
  });
  if (found != slabs.end()) return *found;
  const std::size_t size = std::bit_ceil(std::max({bytes, bytes_ / kPart, kLeastSlab}));
  bytes_ += size;
  const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(is_pinned);
  return slabs.emplace_back(Slab{.memory = at::empty({static_cast<std::int64_t>(size)}, options)});
}

}  // namespace ddprun::runtime
