#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

namespace ddprun::models {
namespace {

constexpr std::int64_t kLeNetSide = 32;
constexpr std::int64_t kSmallestLeNetSide = 12;

std::int64_t lenet_margin(const ImageSize& images) {
  return std::min(images.height, images.width) < kLeNetSide ? 2 : 0;
}

// What is left of a side after both convolutions and poolings.
std::int64_t lenet_side(std::int64_t side, std::int64_t margin) {
  return ((side + 2 * margin - 4) / 2 - 4) / 2;
}

class LeNet final : public Model {
 public:
  LeNet(const ImageSize& images, std::int64_t classes) {
    const std::int64_t margin = lenet_margin(images);
    const std::int64_t pixels = lenet_side(images.height, margin) * lenet_side(images.width, margin);
    const auto first = torch::nn::Conv2dOptions(images.channels, 6, 5).padding(margin);
    conv1_ = register_module("conv1", torch::nn::Conv2d(first));
    conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
    fc1_ = register_module("fc1", torch::nn::Linear(16 * pixels, 120));
    fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
    fc3_ = register_module("fc3", torch::nn::Linear(84, classes));
  }

  at::Tensor forward(at::Tensor images) override {
    at::Tensor x = at::max_pool2d(at::relu(conv1_->forward(images)), 2);
    x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
    x = at::relu(fc1_->forward(x.flatten(1)));
    return fc3_->forward(at::relu(fc2_->forward(x)));
  }

  [[nodiscard]] std::string head() const override { return "fc3"; }

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};

}  // namespace

/// lenet: LeNet-5 (LeCun et al., 1998) with ReLU and max-pooling: 5 × 5 convolutions to 6 and 16 channels,
/// each with 2 × 2 pooling, then linear layers to 120, 84 and the classes. Images below 32 pixels get a margin
/// of 2, as digits of 28 pixels had there. From 12 pixels on; no options.
void register_lenet(ModelRegistry& models) {
  models.add("lenet", "LeNet-5 with ReLU and max-pooling: 62 k parameters with 10 classes of colour images",
             [](const Options&, const DataShape& data) {
               return std::make_shared<LeNet>(images_of(data, "lenet", kSmallestLeNetSide), outputs_of(data));
             });
}

}  // namespace ddprun::models
