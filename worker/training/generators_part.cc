#include "worker/training/generators_part.h"

#include "worker/training/rng.h"
#include <ddprun/collectives.h>
#include <ddprun/exception.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <utility>

namespace ddprun::training {
namespace {

at::Tensor to_tensor(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string to_bytes(const at::Tensor& tensor) {
  // A view of a storage has more bytes than lie there when its strides are 0, and holes when they are large.
  if (tensor.scalar_type() != at::kByte || tensor.dim() != 1 || !tensor.is_contiguous()) {
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("its entry \"rng\" holds {} [{}] with strides [{}]; expected a row of bytes",
                                at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                                fmt::join(tensor.strides(), ", ")));
  }
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

GeneratorsPart::GeneratorsPart(const Context& context, std::function<std::uint64_t()> fresh_seed)
    : SavedPart("rng"), context_(context), fresh_seed_(std::move(fresh_seed)) {}

PtValue GeneratorsPart::save() {
  PtList states;
  for (const std::string& bytes : all_gather_bytes(context_, generator_state(context_.device())))
    states.items.emplace_back(to_tensor(bytes));
  return states;
}

void GeneratorsPart::load(const PtValue& value) {
  const std::vector<PtValue>& states = value.as_sequence();
  const bool same_world = states.size() == static_cast<std::size_t>(context_.world_size());
  const auto rank = static_cast<std::size_t>(context_.rank());
  if (same_world && set_generator_state(context_.device(), to_bytes(states[rank].as_tensor()))) return;
  seed_generators(context_.device(), fresh_seed_());
}

}  // namespace ddprun::training
