#include "worker/runtime/checkpoint/safetensors.h"

#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/corrupt.h"
#include "worker/runtime/checkpoint/whole_file.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kDataAlignment = 8;

constexpr std::array<std::pair<at::ScalarType, const char*>, 15> kTypes{{{at::kDouble, "F64"},
                                                                         {at::kFloat, "F32"},
                                                                         {at::kHalf, "F16"},
                                                                         {at::kBFloat16, "BF16"},
                                                                         {at::kLong, "I64"},
                                                                         {at::kInt, "I32"},
                                                                         {at::kShort, "I16"},
                                                                         {at::kChar, "I8"},
                                                                         {at::kByte, "U8"},
                                                                         {at::kBool, "BOOL"},
                                                                         {at::kUInt16, "U16"},
                                                                         {at::kUInt32, "U32"},
                                                                         {at::kUInt64, "U64"},
                                                                         {at::kFloat8_e4m3fn, "F8_E4M3"},
                                                                         {at::kFloat8_e5m2, "F8_E5M2"}}};

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
  text.append((kDataAlignment - text.size() % kDataAlignment) % kDataAlignment, ' ');
  return text;
}

void require(const Result<void>& done) {
  if (!done) throw_error(done.error());
}

}  // namespace

void save_safetensors(const std::string& path, const PtDict& state) {
  const std::vector<Entry> entries = entries_of(state);
  const std::string header = header_of(entries);
  auto file = value_or_throw(AtomicFile::create(path));
  const std::array<std::uint64_t, 1> length{header.size()};
  require(file.write(std::as_bytes(std::span(length))));
  require(file.write(std::as_bytes(std::span(header))));
  for (const Entry& entry : entries) {
    const auto* bytes = static_cast<const std::byte*>(entry.tensor.const_data_ptr());
    require(file.write({bytes, entry.tensor.nbytes()}));
  }
  require(file.commit());
}

namespace {

constexpr std::size_t kLengthBytes = 8;
/// As the format's own reader has it.
constexpr std::uint64_t kMostHeader = 100'000'000;

std::uint64_t length_of_header(std::span<const std::byte> content) {
  std::uint64_t length = 0;
  std::memcpy(&length, content.data(), kLengthBytes);
  return length;
}

/// A tensor as the header tells of it.
struct Told {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// As far as it fits into what a file can have; nothing where it does not.
std::optional<std::uint64_t> bytes_of(const Told& told) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = c10::elementSize(told.type);
  // A tensor without elements has strides as well, for which a size of 0 counts as 1.
  for (const std::int64_t size : told.shape) {
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > kMost / factor) return std::nullopt;
    bytes *= factor;
  }
  const bool is_empty = std::find(told.shape.begin(), told.shape.end(), 0) != told.shape.end();
  return is_empty ? 0 : bytes;
}

Result<Told> told_of(const std::string& name, const nlohmann::json& about) {
  const auto wrong = [&](const std::string& what) { return corrupt(fmt::format("{}: {}", name, what)); };
  if (!about.is_object() || !about.contains("dtype") || !about.contains("shape") ||
      !about.contains("data_offsets"))
    return wrong("dtype, shape or data_offsets are missing");
  Told told{.name = name};
  const nlohmann::json &type = about["dtype"], &shape = about["shape"], &offsets = about["data_offsets"];
  const auto known =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& one) { return type == one.second; });
  if (known == kTypes.end()) return wrong(fmt::format("the dtype is {}, which is not known", type.dump()));
  told.type = known->first;
  const auto are_sizes = [](const nlohmann::json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const nlohmann::json& one) {
             return one.is_number_unsigned() &&
                    one.get<std::uint64_t>() <=
                        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
           });
  };
  if (!are_sizes(shape) || !are_sizes(offsets) || offsets.size() != 2)
    return wrong("shape or data_offsets are no lists of sizes");
  told.shape = shape.get<std::vector<std::int64_t>>();
  told.begin = offsets[0].get<std::uint64_t>();
  told.end = offsets[1].get<std::uint64_t>();
  const std::optional<std::uint64_t> bytes = bytes_of(told);
  if (!bytes || told.end < told.begin || told.end - told.begin != *bytes)
    return wrong(fmt::format("the bytes {} to {} are not what its shape needs", told.begin, told.end));
  return told;
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> content) {
  return content.size() > kLengthBytes && static_cast<char>(content[kLengthBytes]) == '{' &&
         length_of_header(content) <= kMostHeader;
}

Result<PtDict> read_safetensors(std::span<const std::byte> content) {
  if (!looks_like_safetensors(content)) return corrupt("it does not begin like safetensors");
  const std::uint64_t length = length_of_header(content);
  if (length > content.size() - kLengthBytes)
    return corrupt(fmt::format("its header shall have {} bytes, of which {} are there", length,
                               content.size() - kLengthBytes));
  const auto* const text = reinterpret_cast<const char*>(content.data()) + kLengthBytes;
  const std::span<const std::byte> data = content.subspan(kLengthBytes + static_cast<std::size_t>(length));
  const nlohmann::json header =
      nlohmann::json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return corrupt("its header is not JSON");
  std::vector<Told> all;
  for (const auto& [name, about] : header.items()) {
    if (name == "__metadata__") continue;
    Result<Told> told = told_of(name, about);
    if (!told) return told.error();
    all.push_back(std::move(*told));
  }
  std::stable_sort(all.begin(), all.end(), [](const Told& one, const Told& other) {
    return std::pair(one.begin, one.end) < std::pair(other.begin, other.end);
  });
  PtDict state{.ordered = true};
  std::uint64_t after = 0;
  for (const Told& told : all) {
    if (told.begin != after || told.end > data.size())
      return corrupt(fmt::format("{} begins at byte {} and ends at {}, after {} of {} bytes", told.name,
                                 told.begin, told.end, after, data.size()));
    after = told.end;
    const at::Tensor tensor = at::empty(told.shape, told.type);
    if (tensor.nbytes() > 0)
      std::memcpy(tensor.mutable_data_ptr(), data.data() + told.begin, tensor.nbytes());
    state.add(told.name, tensor);
  }
  if (after != data.size()) return corrupt(fmt::format("{} bytes are of no tensor", data.size() - after));
  return state;
}

PtValue load_pt_or_safetensors(const std::string& path) {
  const WholeFile file = value_or_throw(WholeFile::read(path));
  const std::span<const std::byte> bytes = file.bytes();
  // Of a damaged file its name tells which it was to be.
  const bool is_zip =
      bytes.size() > 1 && static_cast<char>(bytes[0]) == 'P' && static_cast<char>(bytes[1]) == 'K';
  const bool is_named = path.ends_with(".safetensors") && !is_zip;
  if (!looks_like_safetensors(bytes) && !is_named) return parse_pt(bytes, path);
  Result<PtDict> state = read_safetensors(bytes);
  if (!state)
    throw Exception(state.error().code(), fmt::format("cannot read {}: {}", path, state.error().message()));
  return std::move(*state);
}

}  // namespace ddprun::runtime
