#include "worker/data/idx.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace ddprun::data {
namespace {

std::uint32_t big_endian_32(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 36;

}  // namespace

Result<IdxArray> parse_idx(std::vector<std::uint8_t> bytes, int dimensions, const std::string& name) {
  const std::span<const std::uint8_t> view(bytes);
  const std::size_t header = 4 + 4 * static_cast<std::size_t>(dimensions);
  if (bytes.size() < header) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is not an IDX file: it has {} bytes, its header alone takes {}", name,
                             bytes.size(), header));
  }
  const std::uint32_t magic = big_endian_32(view);
  const std::uint32_t expected = 0x0800U + static_cast<std::uint32_t>(dimensions);
  if (magic != expected) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format(
            "{} is not an IDX file of {}-dimensional bytes: it begins with 0x{:08x}, expected 0x{:08x}", name,
            dimensions, magic, expected));
  }
  IdxArray array;
  std::uint64_t count = 1;
  for (std::size_t offset = 4; offset < header; offset += 4) {
    const std::uint32_t size = big_endian_32(view.subspan(offset));
    array.sizes.push_back(size);
    count = size != 0 && count > kMaxElements / size ? kMaxElements + 1 : count * size;
  }
  const std::uint64_t found = bytes.size() - header;
  if (found != count) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format("{} is {}: its header announces {} = {} bytes of data, {} follow; fetch it again", name,
                    found < count ? "truncated" : "damaged", fmt::join(array.sizes, " × "), count, found));
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  array.elements = std::move(bytes);
  return array;
}

}  // namespace ddprun::data
