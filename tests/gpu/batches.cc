// Batches of images arrive on the GPU with the bits that the CPU's have, also when their memory is wanted again while
// the GPU is still busy with what came before. Exits 77 where there is none.
#include "worker/data/image_source.h"
#include "worker/data/synthetic.h"
#include "worker/runtime/comm/gpu/plugin.h"
#include "worker/training/batches/device_batches.h"

#include <torch/types.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

constexpr int kSkipped = 77;
constexpr std::int64_t kSamples = 6000;

/// Work for a while.
class Load {
 public:
  explicit Load(const at::Device& device)
      : matrix_(at::full({2048, 2048}, 1e-3, at::TensorOptions(device))), rounds_(device.is_cpu() ? 0 : 20) {}
  void run() {
    for (int i = 0; i < rounds_; ++i) matrix_ = at::mm(matrix_, matrix_).clamp(0, 1);
  }

 private:
  at::Tensor matrix_;
  int rounds_;
};

/// All images, each batch looked at when the work that was begun before it is done.
at::Tensor all_images(const DataSource& source, std::int64_t batch_size, const at::Device& device) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(source.size()));
  std::iota(indices.begin(), indices.end(), 0);
  const std::unique_ptr<CopyLane> lane = make_copy_lane(device);
  DeviceBatches batches(source, indices,
                        {.batch_size = batch_size, .threads = 2, .pinned = !device.is_cpu(), .seed = 1},
                        device, lane.get());
  Load load(device);
  std::vector<at::Tensor> seen;
  while (const std::optional<Batch> batch = batches.next()) {
    load.run();
    seen.push_back(batch->tensors[0] + 0);
    batches.prefetch();
  }
  return at::cat(seen).cpu();
}

bool compare(const DataSource& source, std::int64_t batch_size, const at::Device& device) {
  const at::Tensor expected = all_images(source, batch_size, at::kCPU);
  const at::Tensor found = all_images(source, batch_size, device);
  const std::int64_t different = expected.view(at::kInt).ne(found.view(at::kInt)).sum().item<std::int64_t>();
  std::printf("batches of %lld on %s: %lld of %lld numbers differ\n", static_cast<long long>(batch_size),
              device.str().c_str(), static_cast<long long>(different), static_cast<long long>(found.numel()));
  return different == 0;
}

int run() {
  std::string why;
  if (runtime::open_gpu_plugin(&why) == 0) {
    std::fprintf(stderr, "SKIPPED: needs a GPU%s\n", why.empty() ? "" : (": " + why).c_str());
    return kSkipped;
  }
  const at::Device device(at::kCUDA, 0);
  const std::string list =
      R"([{"type": "random_crop", "size": 28, "padding": 4}, {"type": "normalize", "mean": [0.1307], "std": [0.3081]}])";
  const DataSplits splits = data::to_sources(
      data::make_synthetic({.train_samples = kSamples, .held_out_samples = 1}),
      Options(R"({"transforms": )" + list + R"(, "test_transforms": )" + list + "}", "/data"));
  const bool as_bytes = compare(*splits.train, 500, device);
  const bool as_numbers = compare(*splits.train, 100, device);
  return as_bytes && as_numbers ? 0 : 1;
}

}  // namespace
}  // namespace ddprun::training

int main() try { return ddprun::training::run(); } catch (const std::exception& error) {
  std::fprintf(stderr, "gpu_batches: %s\n", error.what());
  return 1;
}
