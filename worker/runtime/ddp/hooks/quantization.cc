#include "worker/runtime/ddp/hooks/average_future.h"
#include <ddprun/collectives.h>
#include <ddprun/comm_hooks.h>

#include <fmt/format.h>
#include <torch/types.h>

#include <limits>

namespace ddprun {
namespace {

using at::Tensor;

constexpr double kLargest = 255;

// Row 0: what one step of each channel is worth; row 1: which step is zero. Of [channels, elements].
Tensor steps_of(const Tensor& channels) {
  auto [low, high] = at::aminmax(channels, /*dim=*/1);
  low = low.clamp_max(0);
  high = high.clamp_min(0);
  const Tensor scale = ((high - low) / kLargest).clamp_min(std::numeric_limits<float>::epsilon());
  const Tensor zero = (0 - at::round(low / scale).to(at::kInt)).clamp(0, kLargest);
  return at::stack({scale, zero.to(scale.scalar_type())});
}

Tensor column(const Tensor& steps, int row) { return steps[row].unsqueeze(1); }

// `dtype`: the bucket's, in which Python counts steps. There ATen divides by a scale that is a tensor without
// dimensions: on the CPU as it is, on a GPU rounded to `dtype`.
Tensor quantized(const Tensor& channels, const Tensor& steps, at::ScalarType dtype) {
  const Tensor scale = column(steps, 0);
  const Tensor divisor = channels.is_cpu() ? scale : scale.to(dtype).to(scale.scalar_type());
  const Tensor counted = at::round((channels / divisor).to(dtype)) + column(steps, 1);
  return counted.clamp(0, kLargest).to(at::kByte);
}

Tensor dequantized(const Tensor& bytes, const Tensor& steps) {
  return column(steps, 0) * (bytes.to(at::kFloat) - column(steps, 1));
}

// The mean over ranks of what they have in `channels`, each as bytes with steps of its own.
Tensor quantized_mean(const Group& group, const Tensor& channels, at::ScalarType dtype) {
  const std::vector<Tensor> steps = all_gather(group, steps_of(channels));
  const auto own = static_cast<std::size_t>(group.rank());
  const std::vector<Tensor> bytes = all_gather(group, quantized(channels, steps[own], dtype));
  Tensor sum = at::zeros_like(channels);
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) sum.add_(dequantized(bytes[rank], steps[rank]));
  return sum.div_(group.size());
}

c10::intrusive_ptr<c10::ivalue::Future> reduce(const Group& group, const Tensor& buffer,
                                               const Tensor& channels) {
  const Tensor mean = quantized_mean(group, channels, buffer.scalar_type()).view({-1});
  return runtime::completed(buffer.copy_(mean.narrow(0, 0, buffer.numel())));
}

}  // namespace

CommHook quantization_per_tensor_hook(const Group& group) {
  return [group](c10d::GradBucket& bucket) {
    const Tensor buffer = bucket.getBuffer();
    return reduce(group, buffer, buffer.to(at::kFloat).view({1, -1}));
  };
}

CommHook quantization_per_channel_hook(const Group& group, std::int64_t channel_size) {
  if (channel_size < 1) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("quantization hook: channel_size is {}; expected at least 1", channel_size));
  }
  return [group, channel_size](c10d::GradBucket& bucket) {
    const Tensor buffer = bucket.getBuffer();
    // As in Python, a bucket that is a multiple of the channel's size gets a whole channel of zeros.
    const std::int64_t channels = buffer.numel() / channel_size + 1;
    const Tensor padded = at::zeros({channels, channel_size}, buffer.options().dtype(at::kFloat));
    padded.view({-1}).narrow(0, 0, buffer.numel()).copy_(buffer);
    return reduce(group, buffer, padded);
  };
}

}  // namespace ddprun
