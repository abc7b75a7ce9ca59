#include "worker/runtime/rpc/travel.h"

#include <ddprun/exception.h>
#include <ddprun/rpc_values.h>

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/types.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

std::size_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined())
    throw Exception(ErrorCode::kConfig,
                    "rpc: a tensor that is not defined cannot be sent; give an empty one, or an optional");
  if (!tensor.device().is_cpu())
    throw Exception(ErrorCode::kConfig,
                    fmt::format("rpc: a tensor on {} cannot be sent, because there are no device "
                                "maps here; give a copy of the CPU's",
                                tensor.device().str()));
  if (tensor.layout() == at::kMkldnn || tensor._is_zerotensor())
    throw Exception(
        ErrorCode::kConfig,
        fmt::format(
            "rpc: a tensor of {} cannot be sent; give a dense one of its values (to_dense(), clone())",
            tensor._is_zerotensor() ? "zeros without memory" : "mkldnn"));
  if (tensor.is_sparse()) return tensor._indices().nbytes() + tensor._values().nbytes();
  if (tensor.layout() == at::kStrided) return tensor.nbytes();
  return tensor.values().nbytes();
}

std::size_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::size_t size = 0;
  for (const at::Tensor& tensor : tensors) size += bytes_of(tensor);
  return size;
}

bool names_reference(const c10::Type& type) {
  return type.kind() == c10::TypeKind::RRefType ||
         std::ranges::any_of(type.containedTypes(),
                             [](const c10::TypePtr& part) { return names_reference(*part); });
}

bool is_reference_or_holds_one(const c10::IValue& value) { return !references_in({value}).empty(); }

/// What holds references, in its parts.
std::vector<c10::IValue> parts_of(const c10::IValue& value) {
  if (value.isTuple()) return value.toTupleRef().elements().vec();
  if (value.isList()) return value.toListRef().vec();
  std::vector<c10::IValue> parts;
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      parts.push_back(entry.key());
      parts.push_back(entry.value());
    }
  }
  return parts;
}

}  // namespace

std::size_t size_of(const torch::distributed::rpc::Message& message) {
  return message.payload().size() + bytes_of(message.tensors());
}

std::vector<RRefPtr> references_in(const std::vector<c10::IValue>& values) {
  std::vector<RRefPtr> references;
  for (const c10::IValue& value : values) {
    value.visit([&references](const c10::IValue& part) {
      if (part.isRRef()) references.push_back(part.toRRef());
      return part.isRRef();
    });
  }
  return references;
}

std::size_t size_without_references(const std::vector<c10::IValue>& values) {
  std::size_t size = 0;
  for (const c10::IValue& value : values) {
    if (is_reference_or_holds_one(value)) {
      size += size_without_references(parts_of(value));
      continue;
    }
    std::vector<at::Tensor> tensors;
    size += torch::jit::pickle(value, &tensors).size();
    size += bytes_of(tensors);
  }
  return size;
}

}  // namespace ddprun::runtime

namespace ddprun::rpc {

void untyped::refuse_number(std::int64_t number, std::size_t bits, bool has_sign) {
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("rpc: the number {} does not fit into {} bits {} a sign; take it as a std::int64_t", number,
                  bits, has_sign ? "with" : "without"));
}

c10::TypePtr untyped::type_of_optional(const c10::TypePtr& type) {
  // libtorch has no name for an optional anything, which holds none as it is.
  return type->kind() == c10::TypeKind::AnyType ? type : c10::OptionalType::create(type);
}

c10::TypePtr untyped::type_in_list(const c10::TypePtr& type) {
  return runtime::names_reference(*type) ? c10::AnyType::get() : type;
}

std::vector<c10::IValue> untyped::parts_of_tuple(const c10::IValue& tuple, std::size_t count) {
  if (!tuple.isTuple() || tuple.toTupleRef().elements().size() != count)
    throw Exception(ErrorCode::kConfig, fmt::format("rpc: a tuple of {} was to come, not one of type {}",
                                                    count, tuple.type()->str()));
  return tuple.toTupleRef().elements().vec();
}

}  // namespace ddprun::rpc
