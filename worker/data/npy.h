#pragma once

#include "rendezvous/base/result.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// Reads a file of numpy.save: little-endian integers of 1, 2, 4 and 8 bytes, bool, float32 and float64, in C order;
/// the first dimension counts the rows. The tensor has the file's dtype, but uint8 for bool, int32 for uint16, int64
/// for uint32.
///
/// Errors  kCorrupt, naming the file, what was expected and found.
Result<at::Tensor> parse_npy(std::vector<std::uint8_t> bytes, const std::string& name);

}  // namespace ddprun::data
