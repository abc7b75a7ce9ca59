#include "tests/interop/ddp/models.h"

#include <ddprun/sync_batch_norm.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <stdexcept>

namespace ddprun::interop {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

struct Mlp : Model {
  Mlp() {
    one = register_module("one", nn::Linear(20, 32));
    two = register_module("two", nn::Linear(32, 24));
    three = register_module("three", nn::Linear(24, 10));
  }
  Tensor forward(const Tensor& input) override { return three(torch::relu(two(torch::relu(one(input))))); }
  nn::Linear one{nullptr}, two{nullptr}, three{nullptr};
};

struct TwoDtypes final : Mlp {
  TwoDtypes() { two->to(torch::kDouble); }
};

struct ConvBatchNorm final : Model {
  ConvBatchNorm() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", nn::BatchNorm2d(8));
    head = register_module("head", nn::Linear(8 * 4 * 4, 10));
  }
  Tensor forward(const Tensor& input) override {
    return head(torch::flatten(torch::max_pool2d(torch::relu(norm(conv(input))), 2), 1));
  }
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};
};

struct ConvSyncBatchNorm final : Model {
  explicit ConvSyncBatchNorm(const Group& group) {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", convert_sync_batchnorm(nn::BatchNorm2d(8), group));
    head = register_module("head", nn::Linear(8 * 4 * 4, 10));
  }
  Tensor forward(const Tensor& input) override {
    return head(torch::flatten(torch::max_pool2d(torch::relu(norm(conv(input))), 2), 1));
  }
  nn::Conv2d conv{nullptr};
  SyncBatchNorm norm{nullptr};
  nn::Linear head{nullptr};
};

struct SparseEmbedding final : Model {
  SparseEmbedding() {
    table = register_module("table", nn::Embedding(nn::EmbeddingOptions(50, 12).sparse(true)));
    head = register_module("head", nn::Linear(12, 10));
  }
  Tensor forward(const Tensor& input) override { return head(table(input).mean(1)); }
  nn::Embedding table{nullptr};
  nn::Linear head{nullptr};
};

// Input embedding and output projection share one weight.
struct TiedWeights final : Model {
  TiedWeights() {
    table = register_module("table", nn::Embedding(10, 16));
    hidden = register_module("hidden", nn::Linear(16, 16));
    head = register_module("head", std::make_shared<TiedHead>(table->weight));
  }
  Tensor forward(const Tensor& input) override {
    return head->forward(torch::tanh(hidden(table(input).mean(1))));
  }

  struct TiedHead final : nn::Module {
    explicit TiedHead(const Tensor& shared) { weight = register_parameter("weight", shared); }
    Tensor forward(const Tensor& input) { return torch::linear(input, weight); }
    Tensor weight;
  };
  nn::Embedding table{nullptr};
  nn::Linear hidden{nullptr};
  std::shared_ptr<TiedHead> head;
};

// "spare" takes part in no output.
struct UnusedParameters final : Model {
  UnusedParameters() {
    one = register_module("one", nn::Linear(20, 16));
    spare = register_module("spare", nn::Linear(16, 16));
    two = register_module("two", nn::Linear(16, 10));
  }
  Tensor forward(const Tensor& input) override { return two(torch::relu(one(input))); }
  nn::Linear one{nullptr}, spare{nullptr}, two{nullptr};
};

// A layer that is not trained between two that are.
struct FrozenLayer final : Model {
  FrozenLayer() {
    one = register_module("one", nn::Linear(20, 16));
    fixed = register_module("fixed", nn::Linear(16, 16));
    two = register_module("two", nn::Linear(16, 10));
    for (Tensor& parameter : fixed->parameters()) parameter.requires_grad_(false);
  }
  Tensor forward(const Tensor& input) override { return two(torch::relu(fixed(torch::relu(one(input))))); }
  nn::Linear one{nullptr}, fixed{nullptr}, two{nullptr};
};

// One of two experts, by the sign of the first number that this rank got.
struct Experts final : Model {
  Experts() {
    one = register_module("one", nn::Linear(20, 16));
    left = register_module("left", nn::Linear(16, 16));
    right = register_module("right", nn::Linear(16, 16));
    two = register_module("two", nn::Linear(16, 10));
  }
  Tensor forward(const Tensor& input) override {
    nn::Linear& expert = input[0][0].item<float>() > 0 ? left : right;
    return two(torch::relu(expert(torch::relu(one(input)))));
  }
  nn::Linear one{nullptr}, left{nullptr}, right{nullptr}, two{nullptr};
};

// Leaves out each of two layers where a number of the input is positive.
struct LayerDrop final : Model {
  LayerDrop() {
    one = register_module("one", nn::Linear(20, 16));
    layer0 = register_module("layer0", nn::Linear(16, 16));
    layer1 = register_module("layer1", nn::Linear(16, 16));
    two = register_module("two", nn::Linear(16, 10));
  }
  Tensor forward(const Tensor& input) override {
    Tensor hidden = torch::relu(one(input));
    if (input[0][1].item<float>() > 0) hidden = hidden + torch::relu(layer0(hidden));
    if (input[0][2].item<float>() > 0) hidden = hidden + torch::relu(layer1(hidden));
    return two(hidden);
  }
  nn::Linear one{nullptr}, layer0{nullptr}, layer1{nullptr}, two{nullptr};
};

struct ComplexWeight final : Model {
  ComplexWeight() {
    // Python lists a module's own parameters first.
    mix = register_parameter("mix", torch::zeros({16}, torch::kComplexFloat));
    one = register_module("one", nn::Linear(20, 16));
    two = register_module("two", nn::Linear(16, 10));
  }
  Tensor forward(const Tensor& input) override {
    const Tensor hidden = one(input);
    return two(torch::view_as_real(mix * hidden).select(-1, 1) + hidden);
  }
  Tensor mix;
  nn::Linear one{nullptr}, two{nullptr};
};

// One pre-norm block of a transformer, from primitive operators.
struct Transformer final : Model {
  Transformer() {
    table = register_module("table", nn::Embedding(50, kWidth));
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
    qkv = register_module("qkv", nn::Linear(kWidth, 3 * kWidth));
    out = register_module("out", nn::Linear(kWidth, kWidth));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
    up = register_module("up", nn::Linear(kWidth, 2 * kWidth));
    down = register_module("down", nn::Linear(2 * kWidth, kWidth));
    head = register_module("head", nn::Linear(kWidth, 10));
  }
  Tensor forward(const Tensor& input) override {
    Tensor x = table(input);
    x = x + linear(out, attention(norm1(x)));
    x = x + linear(down, torch::gelu(linear(up, norm2(x))));
    return head(x.mean(1));
  }

 private:
  // The C++ module adds the bias to three dimensions in an operation of its own, Python's does not.
  static Tensor linear(const nn::Linear& layer, const Tensor& x) {
    return torch::linear(x, layer->weight, layer->bias);
  }

  Tensor attention(const Tensor& x) {
    const auto batch = x.size(0);
    const auto length = x.size(1);
    const auto parts =
        linear(qkv, x).view({batch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const auto scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) * 0.5;
    return torch::matmul(torch::softmax(scores, -1), parts[2])
        .transpose(1, 2)
        .reshape({batch, length, kWidth});
  }

  static constexpr std::int64_t kWidth = 16;
  static constexpr std::int64_t kHeads = 4;
  nn::Embedding table{nullptr};
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr}, head{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_model(const std::string& name, const Group& group) {
  if (name == "mlp") return std::make_shared<Mlp>();
  if (name == "conv_bn") return std::make_shared<ConvBatchNorm>();
  if (name == "sync_bn") return std::make_shared<ConvSyncBatchNorm>(group);
  if (name == "embedding") return std::make_shared<SparseEmbedding>();
  if (name == "tied") return std::make_shared<TiedWeights>();
  if (name == "unused") return std::make_shared<UnusedParameters>();
  if (name == "frozen") return std::make_shared<FrozenLayer>();
  if (name == "experts") return std::make_shared<Experts>();
  if (name == "layer_drop") return std::make_shared<LayerDrop>();
  if (name == "complex") return std::make_shared<ComplexWeight>();
  if (name == "two_dtypes") return std::make_shared<TwoDtypes>();
  if (name == "transformer") return std::make_shared<Transformer>();
  throw std::runtime_error("no model " + name);
}

}  // namespace ddprun::interop
