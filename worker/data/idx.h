#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun::data {

/// One IDX file of unsigned bytes (LeCun's format): sizes of the dimensions, then the elements in row-major
/// order.
struct IdxArray {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> elements;
};

/// Bytes of the header of an IDX file.
constexpr std::size_t idx_header_size(int dimensions) { return 4 + 4 * static_cast<std::size_t>(dimensions); }

/// What the header of an IDX file announces.
struct IdxHeader {
  std::vector<std::int64_t> sizes;
  std::size_t bytes = 0;  ///< of the file in all
};

/// Reads the header that `bytes` begin with.
///
/// Errors  kCorrupt: as parse_idx, and more than `limit` bytes.
Result<IdxHeader> parse_idx_header(std::span<const std::uint8_t> bytes, int dimensions, std::size_t limit,
                                   const std::string& name);

/// Reads the bytes of an IDX file with `dimensions` dimensions of unsigned bytes: the header (00 00 08
/// dimensions, then one big-endian 32-bit size each) and exactly as many bytes as it announces.
///
/// Errors  kCorrupt, with `name` of the file, what was expected, what was found.
Result<IdxArray> parse_idx(std::vector<std::uint8_t> bytes, int dimensions, const std::string& name);

}  // namespace ddprun::data
