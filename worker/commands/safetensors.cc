#include "worker/commands/safetensors.h"

#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/throw_error.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kAlignment = 8;

constexpr std::array<std::pair<at::ScalarType, const char*>, 10> kTypes{{{at::kDouble, "F64"},
                                                                         {at::kFloat, "F32"},
                                                                         {at::kHalf, "F16"},
                                                                         {at::kBFloat16, "BF16"},
                                                                         {at::kLong, "I64"},
                                                                         {at::kInt, "I32"},
                                                                         {at::kShort, "I16"},
                                                                         {at::kChar, "I8"},
                                                                         {at::kByte, "U8"},
                                                                         {at::kBool, "BOOL"}}};

std::string format_type(const at::Tensor& tensor, const std::string& name) {
  for (const auto& [type, written] : kTypes)
    if (type == tensor.scalar_type()) return written;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{} is of type {}, which safetensors does not have; use --format pt", name,
                              at::toString(tensor.scalar_type())));
}

struct Entry {
  std::string name;
  at::Tensor tensor;
};

std::vector<Entry> entries_of(const PtDict& state) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : state.entries)
    entries.push_back({name.as_string(), value.as_tensor().detach().cpu().contiguous()});
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(b.tensor.element_size(), a.name) < std::pair(a.tensor.element_size(), b.name);
  });
  return entries;
}

std::string header_of(const std::vector<Entry>& entries) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t at = 0;
  for (const Entry& entry : entries) {
    const std::size_t end = at + entry.tensor.nbytes();
    header[entry.name] = {{"dtype", format_type(entry.tensor, entry.name)},
                          {"shape", entry.tensor.sizes().vec()},
                          {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

void require(const Result<void>& done) {
  if (!done) runtime::throw_error(done.error());
}

}  // namespace

void save_safetensors(const std::string& path, const PtDict& state) {
  const std::vector<Entry> entries = entries_of(state);
  const std::string header = header_of(entries);
  auto file = runtime::value_or_throw(runtime::AtomicFile::create(path));
  const std::array<std::uint64_t, 1> length{header.size()};
  require(file.write(std::as_bytes(std::span(length))));
  require(file.write(std::as_bytes(std::span(header))));
  for (const Entry& entry : entries) {
    const auto* bytes = static_cast<const std::byte*>(entry.tensor.const_data_ptr());
    require(file.write({bytes, entry.tensor.nbytes()}));
  }
  require(file.commit());
}

}  // namespace ddprun::commands
