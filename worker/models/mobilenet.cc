#include "worker/models/chain.h"
#include "worker/models/initialization.h"
#include "worker/models/shapes.h"
#include <ddprun/sync_batch_norm.h>
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

namespace ddprun::models {
namespace {

using torch::nn::Conv2dOptions;

enum class Activation { kNone, kRelu, kHardswish };
enum class Squeeze { kNo, kYes };

/// A row of the paper's table.
struct Bottleneck {
  std::int64_t in;
  std::int64_t kernel;
  std::int64_t expanded;
  std::int64_t out;
  Squeeze squeeze;
  Activation activation;
  std::int64_t stride;
};

constexpr Bottleneck kMobileNetV3Small[] = {
    {16, 3, 16, 16, Squeeze::kYes, Activation::kRelu, 2},
    {16, 3, 72, 24, Squeeze::kNo, Activation::kRelu, 2},
    {24, 3, 88, 24, Squeeze::kNo, Activation::kRelu, 1},
    {24, 5, 96, 40, Squeeze::kYes, Activation::kHardswish, 2},
    {40, 5, 240, 40, Squeeze::kYes, Activation::kHardswish, 1},
    {40, 5, 240, 40, Squeeze::kYes, Activation::kHardswish, 1},
    {40, 5, 120, 48, Squeeze::kYes, Activation::kHardswish, 1},
    {48, 5, 144, 48, Squeeze::kYes, Activation::kHardswish, 1},
    {48, 5, 288, 96, Squeeze::kYes, Activation::kHardswish, 2},
    {96, 5, 576, 96, Squeeze::kYes, Activation::kHardswish, 1},
    {96, 5, 576, 96, Squeeze::kYes, Activation::kHardswish, 1},
};
constexpr std::int64_t kStem = 16;
constexpr std::int64_t kFeatures = 576;
constexpr std::int64_t kHidden = 1024;

// The multiple of 8 next to `channels`, not below 90 % of it.
std::int64_t round_to_eights(std::int64_t channels) {
  const std::int64_t rounded = std::max<std::int64_t>(8, (channels + 4) / 8 * 8);
  return 10 * rounded < 9 * channels ? rounded + 8 : rounded;
}

std::shared_ptr<Chain> conv_norm(const Conv2dOptions& conv, Activation activation) {
  const auto norm = torch::nn::BatchNormOptions(conv.out_channels()).eps(1e-3).momentum(0.01);
  auto layers = std::make_shared<Chain>();
  layers->push_back(torch::nn::Conv2d(conv));
  layers->push_back(SyncBatchNorm(norm));
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kRelu:
      layers->push_back(torch::nn::Functional([](at::Tensor x) { return at::relu_(x); }));
      break;
    case Activation::kHardswish:
      layers->push_back(torch::nn::Functional([](at::Tensor x) { return at::hardswish(x); }));
      break;
  }
  return layers;
}

Conv2dOptions padded(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
}

/// Scales each channel by what the means of all say: Hu et al., "Squeeze-and-Excitation Networks" (2018).
class SqueezeExcitation final : public torch::nn::Module {
 public:
  explicit SqueezeExcitation(std::int64_t channels) {
    const std::int64_t squeezed = round_to_eights(channels / 4);
    fc1_ = register_module("fc1", torch::nn::Conv2d(Conv2dOptions(channels, squeezed, 1)));
    fc2_ = register_module("fc2", torch::nn::Conv2d(Conv2dOptions(squeezed, channels, 1)));
  }

  at::Tensor forward(at::Tensor input) {
    const at::Tensor means = at::adaptive_avg_pool2d(input, {1, 1});
    return at::hardsigmoid(fc2_->forward(at::relu(fc1_->forward(means)))) * input;
  }

 private:
  torch::nn::Conv2d fc1_{nullptr};
  torch::nn::Conv2d fc2_{nullptr};
};

class InvertedResidual final : public torch::nn::Module {
 public:
  explicit InvertedResidual(const Bottleneck& row) : adds_input_(row.stride == 1 && row.in == row.out) {
    if (row.expanded != row.in) block_->push_back(conv_norm(padded(row.in, row.expanded, 1), row.activation));
    const auto depthwise = padded(row.expanded, row.expanded, row.kernel, row.stride).groups(row.expanded);
    block_->push_back(conv_norm(depthwise, row.activation));
    if (row.squeeze == Squeeze::kYes) block_->push_back(std::make_shared<SqueezeExcitation>(row.expanded));
    block_->push_back(conv_norm(padded(row.expanded, row.out, 1), Activation::kNone));
    register_module("block", block_);
  }

  at::Tensor forward(at::Tensor input) {
    at::Tensor output = block_->forward(input);
    if (adds_input_) output += input;
    return output;
  }

 private:
  bool adds_input_;
  torch::nn::Sequential block_;
};

class MobileNetV3Small final : public Model {
 public:
  MobileNetV3Small(std::int64_t channels, std::int64_t classes, double dropout) {
    features_->push_back(conv_norm(padded(channels, kStem, 3, 2), Activation::kHardswish));
    for (const Bottleneck& row : kMobileNetV3Small)
      features_->push_back(std::make_shared<InvertedResidual>(row));
    features_->push_back(conv_norm(padded(96, kFeatures, 1), Activation::kHardswish));
    register_module("features", features_);
    classifier_->push_back(torch::nn::Linear(kFeatures, kHidden));
    classifier_->push_back(torch::nn::Functional([](at::Tensor x) { return at::hardswish(x); }));
    classifier_->push_back(torch::nn::Dropout(dropout));
    classifier_->push_back(torch::nn::Linear(kHidden, classes));
    register_module("classifier", classifier_);
    draw_convolutions_and_linear_layers(*this);
  }

  at::Tensor forward(at::Tensor images) override {
    const at::Tensor x = at::adaptive_avg_pool2d(features_->forward(images), {1, 1});
    return classifier_->forward(x.flatten(1));
  }

  [[nodiscard]] std::string head() const override { return "classifier.3"; }

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace

/// mobilenet_v3_small: Howard et al., "Searching for MobileNetV3" (2019), table 2, as torchvision has it. Images
/// of any size.
///
/// Options  dropout: share of the classifier's hidden values that is dropped in training
void register_mobilenet(ModelRegistry& models) {
  const std::string name = "mobilenet_v3_small";
  models.add(name, "MobileNetV3-small, torchvision's: 2.5 M parameters with 1000 classes",
             [name](const Options& options, const DataShape& data) {
               return std::make_shared<MobileNetV3Small>(images_of(data, name).channels, outputs_of(data),
                                                         options.number("dropout"));
             });
}

}  // namespace ddprun::models
