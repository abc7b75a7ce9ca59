#pragma once

#include <ddprun/divergence.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ddprun::runtime {

// The hash of a tensor's words (32 bits, native byte order, the last one filled up with zeros): rows of
// kRowWords, the last one filled up as well; a row's two sums of word × multiplier; of these, mixed with the
// row's number, the sum over all rows. Multipliers are distinct and have 31 bits, so that no product and no
// difference of two overflows: what changes one word of a row, or exchanges two, changes its sums for
// certain.

inline constexpr std::int64_t kRowWords = 256;

/// One by one on the host: contiguous tensors of the CPU, whatever their dtype.
TensorHash hash_on_host(const at::Tensor& tensor);
/// All at once by ATen's operations on their device, which is the same for all. One copy to the host.
std::vector<TensorHash> hash_by_aten(const std::vector<at::Tensor>& tensors);

/// The multiplier of a word of a row in the first (0) or second (1) sum.
std::int64_t multiplier(int lane, std::int64_t column);

/// What content_hash() gives for each, with as few copies from their devices as these are many.
std::vector<TensorHash> hash_tensors(const std::vector<at::Tensor>& tensors);

/// `hash` and then `more`, in this order.
TensorHash combine(const TensorHash& hash, const TensorHash& more);
TensorHash combine(const TensorHash& hash, std::string_view text);

}  // namespace ddprun::runtime
