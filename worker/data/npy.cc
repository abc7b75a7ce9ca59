#include "worker/data/npy.h"

#include "rendezvous/base/printable.h"
#include "worker/data/cell_text.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

namespace ddprun::data {
namespace {

constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 40;

/// How numpy names a kind of number. Of what torch can do little with, the next larger one is kept.
struct Kind {
  std::string_view name;
  at::ScalarType read;
  at::ScalarType kept = read;
};

constexpr Kind kKinds[] = {
    {"|u1", at::kByte},
    {"|i1", at::kChar},
    {"|b1", at::kByte},
    {"<i2", at::kShort},
    {"<i4", at::kInt},
    {"<u2", at::kUInt16, at::kInt},
    {"<u4", at::kUInt32, at::kLong},
    {"<i8", at::kLong},
    {"<f4", at::kFloat},
    {"<f8", at::kDouble},
};

/// The text after `key` in the dictionary of an .npy header, up to `end`.
std::string_view value_of(std::string_view header, std::string_view key, char end) {
  const std::size_t place = header.find(key);
  if (place == std::string_view::npos) return {};
  const std::string_view rest = header.substr(place + key.size());
  return rest.substr(0, rest.find(end));
}

Error no_npy(const std::string& name, const std::string& why) {
  return {ErrorCode::kCorrupt, fmt::format("{} is no file of numpy.save that can be read: {}", name, why)};
}

/// "(3, 4" → 3, 4
Result<std::vector<std::int64_t>> parse_shape(std::string_view text, const std::string& name) {
  std::vector<std::int64_t> sizes;
  const std::string shown = printable(text, kShownBytes);
  text.remove_prefix(std::min(text.find('(') + 1, text.size()));
  while (!text.empty()) {
    const std::string_view cell = without_blanks(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.find(',', 0), text.size() - 1) + 1);
    if (cell.empty()) continue;
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), size);
    if (error != std::errc() || end != cell.data() + cell.size() || size < 0 ||
        static_cast<std::uint64_t>(size) > kMostNumbers)
      return no_npy(name, fmt::format("its header has the shape {})", shown));
    sizes.push_back(size);
  }
  if (sizes.empty()) return no_npy(name, "it holds a single number, expected rows");
  return sizes;
}

/// How many numbers an array of this shape has; none: more than there can be. torch refuses an empty one, too,
/// whose other dimensions hold too many.
std::optional<std::uint64_t> count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) {
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (count > kMostNumbers / factor) return std::nullopt;
    count *= factor;
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? count : 0;
}

}  // namespace

Result<at::Tensor> parse_npy(std::vector<std::uint8_t> bytes, const std::string& name) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!all.starts_with(kMagic) || all.size() < 12) return no_npy(name, "it does not begin as one");
  const bool is_first_version = bytes[6] == 1;
  const std::size_t length = is_first_version
                                 ? bytes[8] | std::size_t{bytes[9]} << 8
                                 : bytes[8] | std::size_t{bytes[9]} << 8 | std::size_t{bytes[10]} << 16 |
                                       std::size_t{bytes[11]} << 24;
  const std::size_t start = is_first_version ? 10 : 12;
  if (length > all.size() - start) return no_npy(name, "it ends within its header");
  const std::string_view header = all.substr(start, length);
  const std::string_view kind_name = without_blanks(value_of(header, "'descr':", ','));
  const Kind* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& candidate) {
    return kind_name == fmt::format("'{}'", candidate.name);
  });
  if (kind == std::end(kKinds))
    return no_npy(name, fmt::format("its numbers are of kind {}", printable(kind_name, kShownBytes)));
  if (without_blanks(value_of(header, "'fortran_order':", ',')) != "False")
    return no_npy(name, "it is in Fortran's order; save numpy.ascontiguousarray of it");
  const Result<std::vector<std::int64_t>> shape = parse_shape(value_of(header, "'shape':", ')'), name);
  if (!shape) return shape.error();
  const auto item_size = static_cast<std::size_t>(c10::elementSize(kind->read));
  const std::size_t size = all.size() - start - length;
  if (count_of(*shape) != size / item_size || size % item_size != 0) {
    return no_npy(name, fmt::format("its shape is ({}), and {} bytes of {} each follow",
                                    fmt::join(*shape, ", "), size, item_size));
  }
  at::Tensor numbers = at::empty(*shape, kind->read);
  if (size > 0) std::memcpy(numbers.mutable_data_ptr(), bytes.data() + start + length, size);
  std::vector<std::uint8_t>().swap(bytes);  // its memory, before the next allocation
  return numbers.to(kind->kept);
}

}  // namespace ddprun::data
