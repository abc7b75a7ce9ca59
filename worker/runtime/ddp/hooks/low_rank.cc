#include "worker/runtime/ddp/hooks/low_rank.h"

#include "worker/runtime/ddp/hooks/average_future.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <array>
#include <sstream>
#include <utility>

namespace ddprun {
namespace runtime {

using at::Tensor;

namespace {

void check(const PowerSgdOptions& options) {
  if (options.matrix_approximation_rank < 1) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("PowerSGD: the approximation rank is {}; expected at least 1",
                                options.matrix_approximation_rank));
  }
  if ((!options.use_error_feedback && !options.warm_start) || options.start_step > 1) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("PowerSGD: start_step is {}; with error feedback or warm start it must be above 1, because "
                  "DDP rebuilds its buckets after the first step",
                  options.start_step));
}

// Under the names of Python's PowerSGDState.
constexpr std::array<std::pair<const char*, Tensor LowRankMemory::*>, 3> kParts = {
    {{"error_dict", &LowRankMemory::error},
     {"p_memory_dict", &LowRankMemory::p},
     {"q_memory_dict", &LowRankMemory::q}}};

// The tensors of that part, of the buckets that have one.
PtDict by_bucket(const std::map<std::int64_t, LowRankMemory>& memory, Tensor LowRankMemory::*part) {
  PtDict tensors;
  for (const auto& [bucket, parts] : memory) {
    if ((parts.*part).defined()) tensors.add(bucket, parts.*part);
  }
  return tensors;
}

void take(const PtDict& tensors, Tensor LowRankMemory::*part, std::map<std::int64_t, LowRankMemory>& memory) {
  for (const auto& [bucket, tensor] : tensors.entries)
    memory[bucket.as_int()].*part = tensor.as_tensor().detach().clone();
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

std::string SharedNoise::state() const {
  std::ostringstream text;
  text << twister_;
  return text.str();
}

SharedNoise SharedNoise::from_state(const std::string& state) {
  SharedNoise noise(0);
  std::istringstream text(state);
  if (!(text >> noise.twister_)) {
    throw Exception(
        ErrorCode::kCorrupt,
        fmt::format("PowerSGD: \"rng\" is {} characters of something else; expected the numbers of "
                    "a Mersenne twister",
                    state.size()));
  }
  return noise;
}

void fit(Tensor& memory, std::int64_t elements, const Tensor& buffer) {
  if (!memory.defined()) return;
  if (memory.numel() != elements) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("PowerSGD: the state is of other buckets: it has {} elements where this one has "
                    "{}; begin with the buckets it was saved with (set_bucket_order) or without it",
                    memory.numel(), elements));
  }
  memory = memory.to(buffer.options());
}

CommHook low_rank_hook(PowerSgdState state, Compress compress) {
  return [state = std::move(state), compress](c10d::GradBucket& bucket) {
    PowerSgdState::Data& data = state.data();
    const bool is_plain = data.step < data.options.start_step;
    if (bucket.isLast()) ++data.step;
    if (is_plain) return average_async(data.group, bucket.getBuffer());
    compress(data, bucket, data.memory[static_cast<std::int64_t>(bucket.getIndex())]);
    return completed(bucket.getBuffer());
  };
}

}  // namespace runtime

PowerSgdState::PowerSgdState(Group group, const PowerSgdOptions& options) {
  runtime::check(options);
  data_ = std::make_shared<Data>(
      Data{.group = std::move(group), .options = options, .noise = runtime::SharedNoise(options.seed)});
}

void PowerSgdState::set_group(const Group& group) { data_->group = group; }

PtDict state_dict(const PowerSgdState& state) {
  const PowerSgdState::Data& data = state.data();
  PtDict saved;
  saved.set("iter", data.step);
  saved.set("rng", data.noise.state());
  for (const auto& [name, part] : runtime::kParts) saved.set(name, runtime::by_bucket(data.memory, part));
  return saved;
}

void load_state_dict(PowerSgdState& state, const PtDict& saved) {
  const std::int64_t step = saved.at("iter").as_int();
  runtime::SharedNoise noise = runtime::SharedNoise::from_state(saved.at("rng").as_string());
  std::map<std::int64_t, runtime::LowRankMemory> memory;
  for (const auto& [name, part] : runtime::kParts) runtime::take(saved.at(name).as_dict(), part, memory);
  state.data().step = step;
  state.data().noise = std::move(noise);
  state.data().memory = std::move(memory);
}

}  // namespace ddprun
