#include "worker/data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <utility>

namespace ddprun::data {
namespace {

std::uint32_t big_endian_32(std::span<const std::uint8_t> bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 36;

struct Header {
  std::vector<std::int64_t> sizes;
  std::uint64_t count = 1;  // of elements; above kMaxElements where it is more than that
};

Result<Header> parse_header(std::span<const std::uint8_t> bytes, int dimensions, const std::string& name) {
  const std::size_t size = idx_header_size(dimensions);
  if (bytes.size() < size) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is not an IDX file: it has {} bytes, its header alone takes {}", name,
                             bytes.size(), size));
  }
  const std::uint32_t magic = big_endian_32(bytes);
  const std::uint32_t expected = 0x0800U + static_cast<std::uint32_t>(dimensions);
  if (magic != expected) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format(
            "{} is not an IDX file of {}-dimensional bytes: it begins with 0x{:08x}, expected 0x{:08x}", name,
            dimensions, magic, expected));
  }
  Header header;
  for (std::size_t offset = 4; offset < size; offset += 4) {
    const std::uint32_t length = big_endian_32(bytes.subspan(offset));
    header.sizes.push_back(length);
    const bool is_too_large = length != 0 && header.count > kMaxElements / length;
    header.count = is_too_large ? kMaxElements + 1 : header.count * length;
  }
  return header;
}

}  // namespace

Result<IdxHeader> parse_idx_header(std::span<const std::uint8_t> bytes, int dimensions, std::size_t limit,
                                   const std::string& name) {
  Result<Header> header = parse_header(bytes, dimensions, name);
  if (!header) return header.error();
  const std::uint64_t size = idx_header_size(dimensions) + header->count;
  if (size <= limit) return IdxHeader{std::move(header->sizes), size};
  return Error(
      ErrorCode::kCorrupt,
      fmt::format("{} is damaged: its header announces {} elements, more than the {} bytes such a file can "
                  "have; fetch it again",
                  name, fmt::join(header->sizes, " × "), limit));
}

Result<IdxArray> parse_idx(std::vector<std::uint8_t> bytes, int dimensions, const std::string& name) {
  Result<Header> header = parse_header(bytes, dimensions, name);
  if (!header) return header.error();
  const std::size_t start = idx_header_size(dimensions);
  const std::uint64_t found = bytes.size() - start;
  if (found != header->count) {
    const bool is_short = found < header->count;
    return Error(
        ErrorCode::kCorrupt,
        fmt::format("{} is {}: its header announces {} = {} bytes of data, {} follow; fetch it again", name,
                    is_short ? "truncated" : "damaged", fmt::join(header->sizes, " × "), header->count,
                    is_short ? fmt::to_string(found) : "more"));
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(start));
  return IdxArray{std::move(header->sizes), std::move(bytes)};
}

}  // namespace ddprun::data
