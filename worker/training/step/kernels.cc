#include "worker/training/step/kernels.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdlib>

namespace ddprun::training {
namespace {

/// As Module.to does it in Python: with the strides of that layout also for a single channel, where contiguous()
/// would find nothing to do.
at::Tensor as_channels_last(const at::Tensor& weight) {
  return weight.to(weight.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
}

}  // namespace

void choose_kernels(const Options& train) {
  at::Context& context = at::globalContext();
  const bool is_tf32 = train.text("precision") == "tf32";
  context.setAllowTF32CuBLAS(is_tf32);
  context.setAllowTF32CuDNN(is_tf32);
  context.setBenchmarkCuDNN(train.flag("cudnn_benchmark"));
  const bool deterministic = train.flag("deterministic");
  // cuBLAS reads it when its first handle is made.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  // Otherwise every at::empty is filled, so that what reads memory before it writes it is the same each time.
  context.setDeterministicFillUninitializedMemory(false);
}

void choose_threads(const Options& train) {
  // The launcher leaves all processors to a worker that is alone on its host.
  if (train.integer("virtual_ranks") > 0 && std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(1);
}

bool is_slow_in_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bw") == 0;
#else
  return false;
#endif
}

std::string warning_of_slow_precision(const Options& train, const at::Device& device, bool is_bf16_slow) {
  const std::string precision = train.text("precision");
  if (device.is_cpu() && precision == "fp16")
    return "/train/precision: most CPUs take many times as long in fp16 as in fp32; bf16 is for them, too";
  if (!is_bf16_slow || !device.is_cpu() || precision != "bf16") return {};
  return "/train/precision: this CPU has no AVX-512, and takes many times as long for matrix products in "
         "bf16 as in fp32; "
         "go on with --set /train/precision=fp32";
}

void lay_out_channels_last(Model& model) {
  const torch::NoGradGuard no_grad;
  constexpr std::int64_t kDimensions = 4;
  for (at::Tensor& parameter : model.parameters()) {
    if (parameter.dim() == kDimensions) parameter.set_data(as_channels_last(parameter));
  }
}

}  // namespace ddprun::training
