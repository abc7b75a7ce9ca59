#include "worker/models/initialization.h"
#include "worker/models/shapes.h"
#include <ddprun/sync_batch_norm.h>
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <array>

namespace ddprun::models {
namespace {

enum class Norms { kNone, kBatch };

/// How many convolutions each stage has; a pooling ends it.
using VggStages = std::array<int, 5>;

constexpr std::array<std::int64_t, 5> kVggWidths = {64, 128, 256, 512, 512};
constexpr std::int64_t kSmallestVggSide = 32;  // five poolings
constexpr std::int64_t kVggGrid = 7;           // what the classifier sees, whatever the image's size
constexpr std::int64_t kVggHidden = 4096;

torch::nn::Sequential vgg_features(const VggStages& stages, Norms norms, std::int64_t channels) {
  torch::nn::Sequential features;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::int64_t width = kVggWidths[stage];
    for (int i = 0; i < stages[stage]; ++i) {
      features->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width, 3).padding(1)));
      if (norms == Norms::kBatch) features->push_back(SyncBatchNorm(width));
      features->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
      channels = width;
    }
    features->push_back(torch::nn::MaxPool2d(2));
  }
  return features;
}

torch::nn::Sequential vgg_classifier(double dropout, std::int64_t classes) {
  const std::int64_t features = kVggWidths.back() * kVggGrid * kVggGrid;
  const torch::nn::ReLUOptions in_place(/*inplace=*/true);
  return torch::nn::Sequential(torch::nn::Linear(features, kVggHidden), torch::nn::ReLU(in_place),
                               torch::nn::Dropout(dropout), torch::nn::Linear(kVggHidden, kVggHidden),
                               torch::nn::ReLU(in_place), torch::nn::Dropout(dropout),
                               torch::nn::Linear(kVggHidden, classes));
}

class Vgg final : public Model {
 public:
  Vgg(torch::nn::Sequential features, torch::nn::Sequential classifier)
      : features_(register_module("features", std::move(features))),
        classifier_(register_module("classifier", std::move(classifier))) {
    draw_convolutions_and_linear_layers(*this);
  }

  at::Tensor forward(at::Tensor images) override {
    const at::Tensor x = at::adaptive_avg_pool2d(features_->forward(images), {kVggGrid, kVggGrid});
    return classifier_->forward(x.flatten(1));
  }

  [[nodiscard]] std::string head() const override { return "classifier.6"; }

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

void add_vgg(ModelRegistry& models, int layers, const VggStages& stages, Norms norms) {
  const std::string name = fmt::format("vgg{}{}", layers, norms == Norms::kBatch ? "_bn" : "");
  const std::string about =
      fmt::format("VGG-{}{}, torchvision's", layers, norms == Norms::kBatch ? " with batch norm" : "");
  models.add(name, about, [=](const Options& options, const DataShape& data) {
    const ImageSize images = images_of(data, name, kSmallestVggSide);
    const std::int64_t classes = outputs_of(data);
    torch::nn::Sequential features = vgg_features(stages, norms, images.channels);
    return std::make_shared<Vgg>(std::move(features), vgg_classifier(options.number("dropout"), classes));
  });
}

}  // namespace

/// vgg11, vgg13, vgg16, vgg19, and each with batch norm ("vgg16_bn"): torchvision's. Images of any size from 32
/// pixels on.
///
/// Options  dropout: share of the classifier's hidden values that is dropped in training
void register_vgg(ModelRegistry& models) {
  for (const Norms norms : {Norms::kNone, Norms::kBatch}) {
    add_vgg(models, 11, {1, 1, 2, 2, 2}, norms);
    add_vgg(models, 13, {2, 2, 2, 2, 2}, norms);
    add_vgg(models, 16, {2, 2, 3, 3, 3}, norms);
    add_vgg(models, 19, {2, 2, 4, 4, 4}, norms);
  }
}

}  // namespace ddprun::models
