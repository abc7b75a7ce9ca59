#pragma once

#include "rendezvous/base/result.h"

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

/// Reads the bytes of an IDX file with `dimensions` dimensions of unsigned bytes: the header (00 00 08
/// dimensions, then one big-endian 32-bit size each) and exactly as many bytes as it announces.
///
/// Errors  kCorrupt, with `name` of the file, what was expected, what was found.
Result<IdxArray> parse_idx(std::vector<std::uint8_t> bytes, int dimensions, const std::string& name);

}  // namespace ddprun::data
