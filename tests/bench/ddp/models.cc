#include "tests/bench/ddp/models.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <stdexcept>

namespace ddprun::bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

struct Mlp final : Model {
  Mlp() { register_module("layers", layers); }
  Tensor forward(const Tensor& input) override { return layers->forward(input); }
  nn::Sequential layers{nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 128), nn::ReLU(),
                        nn::Linear(128, 10)};
};

struct MnistCnn final : Model {
  MnistCnn() {
    conv1 = register_module("conv1", nn::Conv2d(1, 32, 3));
    conv2 = register_module("conv2", nn::Conv2d(32, 64, 3));
    fc1 = register_module("fc1", nn::Linear(9216, 128));
    fc2 = register_module("fc2", nn::Linear(128, 10));
  }
  Tensor forward(const Tensor& input) override {
    const Tensor features = torch::max_pool2d(torch::relu(conv2(torch::relu(conv1(input)))), 2);
    return fc2(torch::relu(fc1(torch::flatten(features, 1))));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::Linear fc1{nullptr}, fc2{nullptr};
};

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

struct BasicBlock final : nn::Module {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride) {
    conv1 = register_module("conv1", conv3x3(in, out, stride));
    norm1 = register_module("norm1", nn::BatchNorm2d(out));
    conv2 = register_module("conv2", conv3x3(out, out, 1));
    norm2 = register_module("norm2", nn::BatchNorm2d(out));
    if (stride != 1 || in != out) {
      shortcut = register_module(
          "shortcut", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                                     nn::BatchNorm2d(out)));
    }
  }
  Tensor forward(const Tensor& input) {
    const Tensor main = norm2(conv2(torch::relu(norm1(conv1(input)))));
    return torch::relu(main + (shortcut.is_empty() ? input : shortcut->forward(input)));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  nn::Sequential shortcut{nullptr};
};

// He et al. 2015 with the stem for small images: 3×3, no pooling.
struct ResNet18 final : Model {
  ResNet18() {
    conv = register_module("conv", conv3x3(3, 64, 1));
    norm = register_module("norm", nn::BatchNorm2d(64));
    std::int64_t in = 64;
    for (const std::int64_t out : {64, 128, 256, 512}) {
      blocks->push_back(BasicBlock(in, out, out == 64 ? 1 : 2));
      blocks->push_back(BasicBlock(out, out, 1));
      in = out;
    }
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(512, 10));
  }
  Tensor forward(const Tensor& input) override {
    const Tensor features = blocks->forward(torch::relu(norm(conv(input))));
    return head(features.mean({2, 3}));
  }
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Sequential blocks;
  nn::Linear head{nullptr};
};

}  // namespace

Workload make_workload(const std::string& name, std::int64_t batch) {
  Workload workload{.model = nullptr, .input = {}, .target = torch::randint(10, {batch})};
  if (name == "mlp") {
    workload.model = std::make_shared<Mlp>();
    workload.input = torch::randn({batch, 784});
  } else if (name == "mnist_cnn") {
    workload.model = std::make_shared<MnistCnn>();
    workload.input = torch::randn({batch, 1, 28, 28});
  } else if (name == "resnet18") {
    workload.model = std::make_shared<ResNet18>();
    workload.input = torch::randn({batch, 3, 32, 32});
  } else {
    throw std::runtime_error("no workload " + name);
  }
  return workload;
}

}  // namespace ddprun::bench
