#include "worker/runtime/checkpoint/pickled_tensors.h"

#include "worker/runtime/checkpoint/storage_type.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace ddprun::runtime::pickled {
namespace {

constexpr std::size_t kMaxDimensions = 64;                    ///< PyTorch's own
constexpr std::size_t kMaxMarks = 16;                         ///< of one tensor; two are known
constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;  ///< of 16 bytes, they can be counted in 63 bits

__extension__ using Wide = __int128;

std::vector<std::int64_t> integers(Node* node) {
  const auto& items = content<Sequence>(node, "a tensor's size").items;
  // A few bytes may name one long tuple as often as they like.
  if (items.size() > kMaxDimensions) {
    fail(fmt::format("a tensor has a size or stride of {} numbers, and {} dimensions are the limit",
                     items.size(), kMaxDimensions));
  }
  std::vector<std::int64_t> values;
  for (Node* item : items) {
    values.push_back(content<std::int64_t>(item, "an integer"));
  }
  return values;
}

}  // namespace

Storage Tensors::storage_of(Node* description) {
  const auto& items = content<Sequence>(description, "a storage's description").items;
  if (items.size() != 5 || content<std::string>(items[0], "'storage'") != "storage") {
    fail("data.pkl describes a storage in an unknown way");
  }
  const std::string& type_name = content<Global>(items[1], "a storage's type").name;
  const std::string& key = content<std::string>(items[2], "a storage's key");
  const std::int64_t count = content<std::int64_t>(items[4], "a storage's size");
  const auto known = storages_.find(key);
  if (known != storages_.end()) return {known->second};
  const auto type =
      type_name.starts_with("torch.") ? scalar_type_of_storage(type_name.substr(6)) : std::nullopt;
  if (!type) fail(fmt::format("tensors of type {} are not supported", type_name));
  const Result<std::span<const std::byte>> bytes = read_storage_(key);
  if (!bytes) throw Failure{bytes.error()};
  const std::size_t size = c10::elementSize(*type);
  if (count < 0 || static_cast<std::uint64_t>(count) != bytes->size() / size || bytes->size() % size != 0) {
    fail(fmt::format("storage {} has {} bytes where {} elements of {} bytes are announced", key,
                     bytes->size(), count, size));
  }
  at::Tensor tensor = at::empty({count}, *type);
  if (!bytes->empty()) std::memcpy(tensor.mutable_data_ptr(), bytes->data(), bytes->size());
  storages_.emplace(key, tensor);
  return {std::move(tensor)};
}

at::Tensor Tensors::rebuild(const std::vector<Node*>& arguments) {
  const at::Tensor tensor = view_of_storage(arguments);
  if (arguments.size() < 7) return tensor;
  const auto& marks = content<Mapping>(arguments[6], "a tensor's metadata").entries;
  if (marks.size() > kMaxMarks)
    fail(fmt::format("a tensor has {} marks; {} is the limit", marks.size(), kMaxMarks));
  for (const auto& [key, value] : marks) {
    const std::string& name = content<std::string>(key, "the name of a tensor's mark");
    const bool is_set = content<bool>(value, "a tensor's mark");
    if (name == "conj") {
      if (is_set && !tensor.is_complex()) {
        fail(fmt::format("a tensor of type {} is marked as conjugate, which only complex ones can be",
                         at::toString(tensor.scalar_type())));
      }
      tensor._set_conj(is_set);
    } else if (name == "neg") {
      if (is_set && tensor.scalar_type() == at::kBool)
        fail("a tensor of type Bool is marked as negative, which only numbers can be");
      tensor._set_neg(is_set);
    } else {
      fail(fmt::format("a tensor has the mark {}, of which nothing is known here", name));
    }
  }
  return tensor;
}

at::Tensor Tensors::view_of_storage(const std::vector<Node*>& arguments) {
  const at::Tensor& storage = content<Storage>(arguments[0], "a storage").tensor;
  const std::int64_t offset = content<std::int64_t>(arguments[1], "a tensor's offset");
  const std::vector<std::int64_t> sizes = integers(arguments[2]);
  const std::vector<std::int64_t> strides = integers(arguments[3]);
  budget_.spend(sizeof(at::TensorImpl) + (sizes.size() + strides.size()) * sizeof(std::int64_t));
  // Offset, sizes and strides may be anything: the last element they reach must lie in the storage.
  Wide last = offset;
  Wide count = 1;
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  bool is_valid = offset >= 0 && sizes.size() == strides.size();
  for (std::size_t i = 0; is_valid && i < sizes.size(); ++i) {
    is_valid = sizes[i] >= 0 && strides[i] >= 0;
    // Stride 0 makes any number of elements from one, and a size of 0 hides what stands beside it.
    count *= std::max<std::int64_t>(sizes[i], 1);
    if (count > kMaxElements) {
      fail(
          fmt::format("a tensor of size [{}] has more elements than can be counted", fmt::join(sizes, ", ")));
    }
    last += (Wide{sizes[i]} - 1) * strides[i];
    is_valid = is_valid && (is_empty || last < storage.numel());
  }
  if (!is_valid || (!is_empty && last >= storage.numel())) {
    fail(fmt::format(
        "a tensor of size [{}] and stride [{}] at offset {} reaches beyond its storage of {} elements",
        fmt::join(sizes, ", "), fmt::join(strides, ", "), offset, storage.numel()));
  }
  if (is_empty) return at::empty(sizes, storage.options());
  return storage.as_strided(sizes, strides, offset);
}

at::Tensor Tensors::array_of(Node* state) {
  const auto& items = content<Sequence>(state, "an array").items;
  if (items.size() != 5) fail("data.pkl describes an array in an unknown way");
  const std::vector<std::int64_t> sizes = integers(items[1]);
  const std::string& type = content<ArrayType>(items[2], "the type of an array").name;
  if (type != "u1" || content<bool>(items[3], "the order of an array"))
    fail(
        fmt::format("it holds an array of numpy's type {}, and only bytes in C's order are supported", type));
  const std::string& bytes = content<std::string>(items[4], "the bytes of an array");
  Wide count = 1;
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    is_empty = is_empty || size == 0;
    count *= std::max<std::int64_t>(size, 1);
    if (size < 0 || count > kMaxElements)
      fail(fmt::format("data.pkl has an array of size [{}], which cannot be", fmt::join(sizes, ", ")));
  }
  if (is_empty) count = 0;
  if (count != static_cast<Wide>(bytes.size())) {
    fail(
        fmt::format("data.pkl has {} bytes for an array of size [{}]", bytes.size(), fmt::join(sizes, ", ")));
  }
  budget_.spend(bytes.size());
  at::Tensor tensor = at::empty(sizes, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace ddprun::runtime::pickled
