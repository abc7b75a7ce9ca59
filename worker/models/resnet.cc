#include "worker/models/initialization.h"
#include "worker/models/residual_block.h"
#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <array>

namespace ddprun::models {
namespace {

using torch::nn::Conv2dOptions;

enum class BlockKind { kBasic, kBottleneck };

struct ResNetSize {
  BlockKind kind;
  std::array<int, 4> blocks;  ///< of each stage
};

constexpr std::int64_t kStemWidth = 64;

std::int64_t expansion(BlockKind kind) { return kind == BlockKind::kBasic ? 1 : 4; }

std::shared_ptr<ResidualBlock> make_block(BlockKind kind, std::int64_t in, std::int64_t width,
                                          std::int64_t stride) {
  const std::int64_t out = width * expansion(kind);
  std::vector<Conv2dOptions> body;
  if (kind == BlockKind::kBasic) {
    body = {same_size(in, width, 3, stride), same_size(width, width, 3)};
  } else {
    body = {same_size(in, width, 1), same_size(width, width, 3, stride), same_size(width, out, 1)};
  }
  auto block = std::make_shared<ResidualBlock>(body);
  if (stride != 1 || in != out) block->project(in, out, stride);
  return block;
}

class ResNet final : public Model {
 public:
  ResNet(const ResNetSize& size, std::int64_t channels, std::int64_t classes)
      : conv1_(register_module("conv1", torch::nn::Conv2d(same_size(channels, kStemWidth, 7, 2)))),
        bn1_(register_module("bn1", SyncBatchNorm(kStemWidth))) {
    std::int64_t in = kStemWidth;
    for (std::size_t stage = 0; stage < size.blocks.size(); ++stage) {
      const std::int64_t width = kStemWidth << stage;
      torch::nn::Sequential blocks;
      for (int i = 0; i < size.blocks[stage]; ++i) {
        blocks->push_back(make_block(size.kind, in, width, i == 0 && stage > 0 ? 2 : 1));
        in = width * expansion(size.kind);
      }
      stages_.push_back(register_module("layer" + std::to_string(stage + 1), blocks));
    }
    fc_ = register_module("fc", torch::nn::Linear(in, classes));
    draw_convolutions(*this);
  }

  at::Tensor forward(at::Tensor images) override {
    at::Tensor x = bn1_->forward(conv1_->forward(images));
    x = at::max_pool2d(at::relu_(x), /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (torch::nn::Sequential& stage : stages_) x = stage->forward(x);
    return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  [[nodiscard]] std::string head() const override { return "fc"; }

 private:
  torch::nn::Conv2d conv1_;
  SyncBatchNorm bn1_;
  std::vector<torch::nn::Sequential> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

/// resnet18, resnet34, resnet50, resnet101: torchvision's, whose stride stands in the 3 × 3 convolution of a
/// bottleneck ("v1.5"). Images of any size; no options.
void register_resnet(ModelRegistry& models) {
  const auto add = [&](const std::string& name, const std::string& about, const ResNetSize& size) {
    models.add(name, about, [name, size](const Options&, const DataShape& data) {
      return std::make_shared<ResNet>(size, images_of(data, name).channels, outputs_of(data));
    });
  };
  add("resnet18", "ResNet-18, torchvision's: 11.7 M parameters with 1000 classes",
      {BlockKind::kBasic, {2, 2, 2, 2}});
  add("resnet34", "ResNet-34, torchvision's: 21.8 M parameters with 1000 classes",
      {BlockKind::kBasic, {3, 4, 6, 3}});
  add("resnet50", "ResNet-50, torchvision's, v1.5: 25.6 M parameters with 1000 classes",
      {BlockKind::kBottleneck, {3, 4, 6, 3}});
  add("resnet101", "ResNet-101, torchvision's, v1.5: 44.5 M parameters with 1000 classes",
      {BlockKind::kBottleneck, {3, 4, 23, 3}});
}

}  // namespace ddprun::models
