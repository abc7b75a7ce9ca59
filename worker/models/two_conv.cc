#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace ddprun::models {
/// The smallest convolutional net worth comparing with: 3 × 3 convolutions of 10 and 10 channels, each with
/// ReLU and 2 × 2 max-pooling, then one linear layer, which has 490 inputs for 28 × 28 images.
class TwoConv final : public Model {
 public:
  TwoConv(const ImageSize& image, std::int64_t outputs);
  at::Tensor forward(at::Tensor images) override;
  [[nodiscard]] std::string head() const override { return "fc"; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc_;
};

namespace {

constexpr std::int64_t kChannels = 10;

torch::nn::Conv2d same_size_conv(std::int64_t in) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, kChannels, 3).padding(1));
}

}  // namespace

TwoConv::TwoConv(const ImageSize& image, std::int64_t outputs)
    : conv1_(register_module("conv1", same_size_conv(image.channels))),
      conv2_(register_module("conv2", same_size_conv(kChannels))),
      fc_(register_module("fc",
                          torch::nn::Linear(kChannels * (image.height / 4) * (image.width / 4), outputs))) {}

at::Tensor TwoConv::forward(at::Tensor images) {
  at::Tensor x = at::max_pool2d(at::relu(conv1_->forward(images)), 2);
  x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
  return fc_->forward(x.flatten(1));
}

void register_two_conv(ModelRegistry& models) {
  models.add("two_conv", "two 3×3 convolutions of 10 channels and one linear layer",
             [](const Options&, const DataShape& data) {
               return std::make_shared<TwoConv>(images_of(data, "two_conv"), outputs_of(data));
             });
}

}  // namespace ddprun::models
