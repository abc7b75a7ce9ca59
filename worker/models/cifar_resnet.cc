#include "worker/models/initialization.h"
#include "worker/models/residual_block.h"
#include "worker/models/shapes.h"
#include <ddprun/exception.h>
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <array>

namespace ddprun::models {
namespace {

enum class Shortcut { kPad, kProjection };

constexpr std::array<std::int64_t, 3> kCifarWidths = {16, 32, 64};

Shortcut shortcut_of(const Options& options) {
  const std::string text = options.text("shortcut");
  if (text == "pad") return Shortcut::kPad;
  if (text == "projection") return Shortcut::kProjection;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("{}/shortcut: expected \"pad\" or \"projection\", got \"{}\"", options.pointer(), text));
}

/// Where its body halves the image, so does the shortcut, by leaving out pixels.
class PaddedBlock final : public ResidualBlock {
 public:
  PaddedBlock(const std::vector<torch::nn::Conv2dOptions>& body, std::int64_t added_channels)
      : ResidualBlock(body), margin_(added_channels / 2) {}

 protected:
  at::Tensor shortcut(const at::Tensor& input) override {
    if (margin_ == 0) return input;
    const at::Tensor every_second = input.slice(2, {}, {}, 2).slice(3, {}, {}, 2);
    return at::constant_pad_nd(every_second, {0, 0, 0, 0, margin_, margin_});
  }

 private:
  std::int64_t margin_;
};

std::shared_ptr<ResidualBlock> make_cifar_block(Shortcut shortcut, std::int64_t in, std::int64_t width) {
  const std::int64_t stride = in == width ? 1 : 2;
  const std::vector<torch::nn::Conv2dOptions> body = {same_size(in, width, 3, stride),
                                                      same_size(width, width, 3)};
  if (shortcut == Shortcut::kPad) return std::make_shared<PaddedBlock>(body, width - in);
  auto block = std::make_shared<ResidualBlock>(body);
  if (stride != 1) block->project(in, width, stride);
  return block;
}

// He's normal rule by what goes into a layer.
void draw_by_fan_in(torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2dImpl>()) torch::nn::init::kaiming_normal_(conv->weight);
    if (auto* linear = module->as<torch::nn::LinearImpl>()) torch::nn::init::kaiming_normal_(linear->weight);
  }
}

class CifarResNet final : public Model {
 public:
  CifarResNet(int blocks_of_stage, Shortcut shortcut, std::int64_t channels, std::int64_t classes)
      : shortcut_(shortcut),
        conv1_(register_module("conv1", torch::nn::Conv2d(same_size(channels, kCifarWidths[0], 3)))),
        bn1_(register_module("bn1", SyncBatchNorm(kCifarWidths[0]))) {
    std::int64_t in = kCifarWidths[0];
    for (const std::int64_t width : kCifarWidths) {
      torch::nn::Sequential blocks;
      for (int i = 0; i < blocks_of_stage; ++i) {
        blocks->push_back(make_cifar_block(shortcut, in, width));
        in = width;
      }
      stages_.push_back(register_module("layer" + std::to_string(stages_.size() + 1), blocks));
    }
    classes_ = register_module(head(), torch::nn::Linear(in, classes));
    if (shortcut == Shortcut::kPad) {
      draw_by_fan_in(*this);
    } else {
      draw_convolutions(*this);
    }
  }

  at::Tensor forward(at::Tensor images) override {
    at::Tensor x = bn1_->forward(conv1_->forward(images));
    at::relu_(x);
    for (torch::nn::Sequential& stage : stages_) x = stage->forward(x);
    return classes_->forward(mean(x).flatten(1));
  }

  [[nodiscard]] std::string head() const override { return shortcut_ == Shortcut::kPad ? "linear" : "fc"; }

 private:
  // The same number, but each of the two nets in Python has its own kernel for it.
  [[nodiscard]] at::Tensor mean(const at::Tensor& x) const {
    return shortcut_ == Shortcut::kPad ? at::avg_pool2d(x, {x.size(2), x.size(3)})
                                       : at::adaptive_avg_pool2d(x, {1, 1});
  }

  Shortcut shortcut_;
  torch::nn::Conv2d conv1_;
  SyncBatchNorm bn1_;
  std::vector<torch::nn::Sequential> stages_;
  torch::nn::Linear classes_{nullptr};
};

}  // namespace

/// resnet20, resnet32, resnet56: the nets for CIFAR of He et al. (2015), §4.2. Images of any size.
///
/// Options  shortcut: where a stage halves the image and doubles the channels,
///          "pad"         every second pixel, with zero channels around: option A of the paper.
///                        Names and first weights of akamaster/pytorch_resnet_cifar10
///          "projection"  a 1 × 1 convolution with batch norm: option B. Names and first weights of torchvision's
///                        ResNets, and so of chenyaofo/pytorch-cifar-models
void register_cifar_resnet(ModelRegistry& models) {
  for (const int layers : {20, 32, 56}) {
    const std::string name = fmt::format("resnet{}", layers);
    models.add(name, fmt::format("ResNet-{} for images of CIFAR's size: {} wide", layers, "16, 32 and 64"),
               [=](const Options& options, const DataShape& data) {
                 return std::make_shared<CifarResNet>((layers - 2) / 6, shortcut_of(options),
                                                      images_of(data, name).channels, outputs_of(data));
               });
  }
}

}  // namespace ddprun::models
