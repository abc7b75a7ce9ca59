#include "worker/runtime/ddp/hooks/low_rank.h"

#include "worker/runtime/ddp/hooks/average_future.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

namespace ddprun::runtime {

using at::Tensor;

namespace {

void check_start_step(const PowerSgdOptions& options) {
  if ((!options.use_error_feedback && !options.warm_start) || options.start_step > 1) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("PowerSGD: start_step is {}; with error feedback or warm start it must be above 1, because "
                  "DDP rebuilds its buckets after the first step",
                  options.start_step));
}

}  // namespace

void orthogonalize(const Tensor& matrices, double epsilon) {
  const std::int64_t columns = matrices.size(2);
  const bool is_half = matrices.scalar_type() == at::kHalf || matrices.scalar_type() == at::kBFloat16;
  if (columns > 2 && !is_half) {
    matrices.copy_(std::get<0>(at::linalg_qr(matrices)));
    return;
  }
  for (std::int64_t i = 0; i < columns; ++i) {
    Tensor column = matrices.narrow(2, i, 1);
    Tensor norm = at::norm(column, 2, std::vector<std::int64_t>{1}, /*keepdim=*/true);
    column.div_(epsilon == 0 ? norm : norm.add_(epsilon));
    if (i + 1 == columns) continue;
    Tensor rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(at::sum(column * rest, std::vector<std::int64_t>{1}, /*keepdim=*/true) * column);
  }
}

void SharedNoise::fill(const std::vector<Tensor>& tensors) {
  at::Generator generator = at::detail::createCPUGenerator(next_seed());
  for (const Tensor& tensor : tensors) {
    tensor.copy_(at::randn(tensor.sizes(), generator, at::TensorOptions(tensor.scalar_type())));
  }
}

// numpy's RandomState(seed).randint(1000000000), which Python's hooks draw their seeds from: a masked 32-bit
// Mersenne twister with rejection.
std::uint64_t SharedNoise::next_seed() {
  constexpr std::uint32_t kMask = (1U << 30) - 1;
  constexpr std::uint32_t kLargest = 999'999'999;
  for (;;) {
    const auto drawn = static_cast<std::uint32_t>(twister_()) & kMask;
    if (drawn <= kLargest) return drawn;
  }
}

LowRankHook::LowRankHook(Group group, const PowerSgdOptions& options)
    : group_(std::move(group)), options_(options), noise_(options.seed) {
  check_start_step(options);
}

c10::intrusive_ptr<c10::ivalue::Future> LowRankHook::reduce(c10d::GradBucket& bucket) {
  const bool is_plain = step_ < options_.start_step;
  if (bucket.isLast()) ++step_;
  if (is_plain) return average_async(group_, bucket.getBuffer());
  compress_and_reduce(bucket, memory_[bucket.getIndex()]);
  return completed(bucket.getBuffer());
}

}  // namespace ddprun::runtime
