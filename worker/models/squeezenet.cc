#include "worker/models/shapes.h"
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/pooling.h>

namespace ddprun::models {
namespace {

constexpr std::int64_t kSmallestSqueezeNetSide = 17;  // a stride of two and three poolings of 3 × 3
constexpr double kSqueezeNetDropout = 0.5;

/// Few channels, and twice many of them: half by 1 × 1, half by 3 × 3 convolutions.
class Fire : public torch::nn::Module {
 public:
  Fire(std::int64_t in, std::int64_t squeezed, std::int64_t each)
      : squeeze_(register_module("squeeze", conv(in, squeezed, 1))),
        expand1x1_(register_module("expand1x1", conv(squeezed, each, 1))),
        expand3x3_(register_module("expand3x3", conv(squeezed, each, 3))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = at::relu(squeeze_->forward(input));
    return at::cat({at::relu(expand1x1_->forward(x)), at::relu(expand3x3_->forward(x))}, 1);
  }

 private:
  static torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).padding(kernel / 2));
  }

  torch::nn::Conv2d squeeze_;
  torch::nn::Conv2d expand1x1_;
  torch::nn::Conv2d expand3x3_;
};

torch::nn::Sequential squeezenet_features(std::int64_t channels) {
  const auto pool = [] {
    return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).ceil_mode(true));
  };
  const auto fire = [](std::int64_t in, std::int64_t squeezed, std::int64_t each) {
    return std::make_shared<Fire>(in, squeezed, each);
  };
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 64, 3).stride(2)),
                               torch::nn::ReLU(), pool(), fire(64, 16, 64), fire(128, 16, 64), pool(),
                               fire(128, 32, 128), fire(256, 32, 128), pool(), fire(256, 48, 192),
                               fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256));
}

class SqueezeNet final : public Model {
 public:
  SqueezeNet(const ImageSize& images, std::int64_t classes)
      : features_(register_module("features", squeezenet_features(images.channels))),
        classifier_(register_module(
            "classifier", torch::nn::Sequential(
                              torch::nn::Dropout(kSqueezeNetDropout),
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(512, classes, 1)), torch::nn::ReLU(),
                              torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({1, 1}))))) {
    draw();
  }

  at::Tensor forward(at::Tensor images) override {
    return classifier_->forward(features_->forward(std::move(images))).flatten(1);
  }

  [[nodiscard]] std::string head() const override { return "classifier.1"; }

 private:
  void draw() {
    const torch::nn::Conv2dImpl* const last = classifier_->ptr<torch::nn::Conv2dImpl>(1).get();
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* const conv = module->as<torch::nn::Conv2dImpl>();
      if (conv == nullptr) continue;
      if (conv == last) {
        torch::nn::init::normal_(conv->weight, 0, 0.01);
      } else {
        torch::nn::init::kaiming_uniform_(conv->weight);
      }
      torch::nn::init::zeros_(conv->bias);
    }
  }

  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace

/// squeezenet1_1: Iandola et al. (2016), torchvision's version 1.1. Images of any size from 17 pixels on; dropout of
/// a half before its head, as torchvision has it by default. No options.
void register_squeezenet(ModelRegistry& models) {
  models.add("squeezenet1_1", "SqueezeNet 1.1, torchvision's: 1.2 M parameters with 1000 classes",
             [](const Options&, const DataShape& data) {
               const ImageSize images = images_of(data, "squeezenet1_1", kSmallestSqueezeNetSide);
               return std::make_shared<SqueezeNet>(images, outputs_of(data));
             });
}

}  // namespace ddprun::models
