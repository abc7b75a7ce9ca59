#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace ddprun::models {
/// Two 5 × 5 convolutions of 16 and 32 channels, each with ReLU and 2 × 2 max-pooling, then linear layers of
/// 128 and as many outputs as there are classes, with dropout between them. Of 28 × 28 images the first has
/// 1568 inputs.
class MnistCnn final : public Model {
 public:
  MnistCnn(const ImageSize& image, std::int64_t outputs, double dropout);
  at::Tensor forward(at::Tensor images) override;
  [[nodiscard]] std::string head() const override { return "fc2"; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::Linear fc1_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear fc2_;
};

namespace {

torch::nn::Conv2d same_size_conv(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).padding(2));
}

}  // namespace

MnistCnn::MnistCnn(const ImageSize& image, std::int64_t outputs, double dropout)
    : conv1_(register_module("conv1", same_size_conv(image.channels, 16))),
      conv2_(register_module("conv2", same_size_conv(16, 32))),
      fc1_(register_module("fc1", torch::nn::Linear(32 * (image.height / 4) * (image.width / 4), 128))),
      dropout_(register_module("dropout", torch::nn::Dropout(dropout))),
      fc2_(register_module("fc2", torch::nn::Linear(128, outputs))) {}

at::Tensor MnistCnn::forward(at::Tensor images) {
  at::Tensor x = at::max_pool2d(at::relu(conv1_->forward(images)), 2);
  x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
  x = at::relu(fc1_->forward(x.flatten(1)));
  return fc2_->forward(dropout_->forward(x));
}

void register_mnist_cnn(ModelRegistry& models) {
  models.add("mnist_cnn", "two 5×5 convolutions of 16 and 32 channels and two linear layers",
             [](const Options& options, const DataShape& data) {
               return std::make_shared<MnistCnn>(images_of(data, "mnist_cnn"), outputs_of(data),
                                                 options.number("dropout"));
             });
}

}  // namespace ddprun::models
