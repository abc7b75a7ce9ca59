// What of the library is one operation after the other on a card's own stream: content_hash is the CPU's, and clipping
// waits for nothing. Exits 77 where there is none; `gpu_tensors cpu` tries what can be tried without.
#include "worker/runtime/comm/gpu/plugin.h"
#include <ddprun/clip_grad.h>
#include <ddprun/divergence.h>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr int kSkipped = 77;

bool report(const std::string& what, bool is_good) {
  std::printf("%s: %s\n", what.c_str(), is_good ? "right" : "WRONG");
  return is_good;
}

bool hashes(const at::Device& device) {
  bool good = true;
  const std::vector<at::ScalarType> dtypes = {torch::kFloat,    torch::kDouble,      torch::kHalf,
                                              torch::kBFloat16, torch::kInt8,        torch::kInt64,
                                              torch::kBool,     torch::kComplexFloat};
  for (const at::ScalarType dtype : dtypes) {
    for (const std::int64_t count : {0, 1, 3, 255, 256, 257, 100'000}) {
      const at::Tensor host = torch::randn({count}).mul(100).to(dtype);
      const at::Tensor there = host.to(device, dtype, /*non_blocking=*/false, /*copy=*/true);
      good = good && content_hash(host) == content_hash(there);
      if (count == 0) continue;
      const at::Tensor wide = torch::stack({there, there}, 1).select(1, 0);  // not contiguous
      good = good && content_hash(host) == content_hash(wide);
      there.view({-1})[count - 1] = there.view({-1})[count - 1].logical_not();
      good = good && content_hash(host) != content_hash(there);
    }
  }
  const at::Tensor large = torch::randn({5'000'000});  // more than is hashed at once
  return report("content_hash on " + device.str(),
                good && content_hash(large) == content_hash(large.to(device)));
}

/// Work for some tens of milliseconds.
void keep_busy(const at::Device& device) {
  at::Tensor matrix = at::full({4096, 4096}, 1e-3, at::TensorOptions(device));
  for (int i = 0; i < 20; ++i) matrix = at::mm(matrix, matrix).clamp(0, 1);
}

bool clipping(const at::Device& device) {
  std::vector<at::Tensor> parameters;
  for (const std::int64_t size : {7, 1000, 300'000}) {
    parameters.push_back(torch::zeros({size}, device));
    parameters.back().mutable_grad() = torch::ones({size}, device);
  }
  clip_grad_norm_(parameters, 1.0);  // the first calls load kernels, which may wait
  clip_grad_value_(parameters, 0.5);
  keep_busy(device);
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.index());
  keep_busy(device);
  c10::Event done(device.type());
  done.record(guard.getStream(device));
  clip_grad_norm_(parameters, 0.5);
  clip_grad_value_(parameters, 0.1);
  return report("clip_grad waits for nothing on " + device.str(), !done.query());
}

int run(bool on_cpu) {
  if (on_cpu) return hashes(at::kCPU) ? 0 : 1;
  std::string why;
  if (runtime::open_gpu_plugin(&why) == 0) {
    std::fprintf(stderr, "SKIPPED: needs a GPU%s\n", why.empty() ? "" : (": " + why).c_str());
    return kSkipped;
  }
  const at::Device device(at::kCUDA, 0);
  const bool good = hashes(device);
  return clipping(device) && good ? 0 : 1;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) try {
  return ddprun::run(argc > 1 && std::string(argv[1]) == "cpu");
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu_tensors: %s\n", error.what());
  return 1;
}
