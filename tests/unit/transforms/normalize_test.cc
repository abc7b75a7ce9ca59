#include "worker/transforms/normalize.h"

#include "tests/support/catch.h"

#include <torch/types.h>

#include <numeric>
#include <random>
#include <vector>

using namespace ddprun::transforms;

namespace {

/// 1 × 3 × 1 × 256: every level in every channel.
at::Tensor every_level() { return at::arange(256, at::kByte).view({1, 1, 1, 256}).repeat({1, 3, 1, 1}); }

at::Tensor by_table(const Normalizer& normalizer, const at::Tensor& bytes) {
  at::Tensor out = at::empty(bytes.sizes(), at::kFloat);
  normalizer.write(planar_view(bytes.const_data_ptr<std::uint8_t>(), 3, {1, 256}),
                   out.mutable_data_ptr<float>());
  return out;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return torch::equal(a.view(at::kInt), b.view(at::kInt));
}

}  // namespace

TEST_CASE("numbers made of a whole batch have the bits of those made image by image") {
  std::mt19937 engine(1);
  const auto draw = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(engine()) / static_cast<float>(std::mt19937::max());
  };
  const at::Tensor bytes = every_level();
  for (const Scaling scaling : {Scaling::kDivide, Scaling::kMultiply}) {
    for (int i = 0; i < 300; ++i) {
      Normalization normalization{
          .mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.229F, 0.224F, 0.225F}, .scaling = scaling};
      if (i == 1) normalization = {.scaling = scaling};
      if (i == 2) normalization = {.mean = {0.1307F}, .deviation = {0.3081F}, .scaling = scaling};
      if (i > 2) {
        for (float& mean : normalization.mean) mean = draw(-1, 2);
        for (float& deviation : normalization.deviation) deviation = draw(0.001F, 3);
      }
      const Normalizer normalizer(normalization, 3);
      CHECK(same_bits(normalizer.on(at::kCPU)(bytes), by_table(normalizer, bytes)));
    }
  }
}
