#include "worker/models/linear.h"
#include "worker/models/shapes.h"
#include <ddprun/exception.h>
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>

#include <cmath>

namespace ddprun::models {
namespace {

struct GptOptions {
  std::int64_t tokens;  ///< of a sample, at most
  std::int64_t vocabulary;
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t width;
  double dropout;
  bool bias;
};

constexpr double kGptDeviation = 0.02;

torch::nn::Linear gpt_linear(std::int64_t in, std::int64_t out, const GptOptions& options) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(options.bias));
}

/// libtorch's has a bias, or neither weight nor bias.
class GptNorm final : public torch::nn::Module {
 public:
  explicit GptNorm(const GptOptions& options)
      : weight_(register_parameter("weight", at::ones({options.width}))) {
    if (options.bias) bias_ = register_parameter("bias", at::zeros({options.width}));
  }

  at::Tensor forward(const at::Tensor& input) {
    return at::layer_norm(input, weight_.sizes(), weight_, bias_, 1e-5);
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Each position looks at itself and those before it.
class GptAttention final : public torch::nn::Module {
 public:
  explicit GptAttention(const GptOptions& options)
      : heads_(options.heads),
        dropout_(options.dropout),
        c_attn_(register_module("c_attn", gpt_linear(options.width, 3 * options.width, options))),
        c_proj_(register_module("c_proj", gpt_linear(options.width, options.width, options))),
        resid_dropout_(register_module("resid_dropout", torch::nn::Dropout(options.dropout))) {}

  at::Tensor forward(const at::Tensor& input) {
    const std::vector<at::Tensor> parts = linear_forward(c_attn_, input).split(input.size(2), 2);
    const at::Tensor mixed =
        at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {},
                                         is_training() ? dropout_ : 0, /*is_causal=*/true);
    const at::Tensor joined = mixed.transpose(1, 2).contiguous().flatten(2);
    return resid_dropout_->forward(linear_forward(c_proj_, joined));
  }

 private:
  [[nodiscard]] at::Tensor by_head(const at::Tensor& x) const {
    return x.unflatten(2, {heads_, x.size(2) / heads_}).transpose(1, 2);
  }

  std::int64_t heads_;
  double dropout_;
  torch::nn::Linear c_attn_;
  torch::nn::Linear c_proj_;
  torch::nn::Dropout resid_dropout_;
};

class GptMlp final : public torch::nn::Module {
 public:
  explicit GptMlp(const GptOptions& options)
      : c_fc_(register_module("c_fc", gpt_linear(options.width, 4 * options.width, options))),
        c_proj_(register_module("c_proj", gpt_linear(4 * options.width, options.width, options))),
        dropout_(register_module("dropout", torch::nn::Dropout(options.dropout))) {}

  at::Tensor forward(const at::Tensor& input) {
    return dropout_->forward(linear_forward(c_proj_, at::gelu(linear_forward(c_fc_, input))));
  }

 private:
  torch::nn::Linear c_fc_;
  torch::nn::Linear c_proj_;
  torch::nn::Dropout dropout_;
};

class GptBlock final : public torch::nn::Module {
 public:
  explicit GptBlock(const GptOptions& options)
      : ln_1_(register_module("ln_1", std::make_shared<GptNorm>(options))),
        attn_(register_module("attn", std::make_shared<GptAttention>(options))),
        ln_2_(register_module("ln_2", std::make_shared<GptNorm>(options))),
        mlp_(register_module("mlp", std::make_shared<GptMlp>(options))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + attn_->forward(ln_1_->forward(input));
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  std::shared_ptr<GptNorm> ln_1_;
  std::shared_ptr<GptAttention> attn_;
  std::shared_ptr<GptNorm> ln_2_;
  std::shared_ptr<GptMlp> mlp_;
};

/// All but the head.
class GptTrunk final : public torch::nn::Module {
 public:
  explicit GptTrunk(const GptOptions& options)
      : wte_(register_module("wte", torch::nn::Embedding(options.vocabulary, options.width))),
        wpe_(register_module("wpe", torch::nn::Embedding(options.tokens, options.width))),
        drop_(register_module("drop", torch::nn::Dropout(options.dropout))) {
    torch::nn::ModuleList blocks;
    for (std::int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(std::make_shared<GptBlock>(options));
      blocks->push_back(blocks_.back());
    }
    register_module("h", blocks);
    ln_f_ = register_module("ln_f", std::make_shared<GptNorm>(options));
  }

  at::Tensor forward(const at::Tensor& tokens) {
    // No arange: a trace would keep its length as a number.
    const at::Tensor positions = at::ones_like(tokens[0], at::kLong).cumsum(0) - 1;
    at::Tensor x = drop_->forward(wte_->forward(tokens) + wpe_->forward(positions));
    for (const auto& block : blocks_) x = block->forward(x);
    return ln_f_->forward(x);
  }

  /// What the head shares.
  [[nodiscard]] const at::Tensor& token_embedding() const { return wte_->weight; }

 private:
  torch::nn::Embedding wte_;
  torch::nn::Embedding wpe_;
  torch::nn::Dropout drop_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  std::shared_ptr<GptNorm> ln_f_;
};

/// A linear layer without bias whose weight is another module's, too.
class GptHead final : public torch::nn::Module {
 public:
  explicit GptHead(const at::Tensor& weight) : weight_(register_parameter("weight", weight)) {
    // Python draws a weight of the head's own here, and then drops it: the generator has to move on alike.
    torch::nn::init::kaiming_uniform_(weight_, std::sqrt(5.0));
  }

  at::Tensor forward(const at::Tensor& input) { return at::linear(input, weight_); }
  [[nodiscard]] const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

bool ends_with_projection(const std::string& name) { return name.ends_with("c_proj.weight"); }

class Gpt final : public Model {
 public:
  explicit Gpt(const GptOptions& options)
      : transformer_(register_module("transformer", std::make_shared<GptTrunk>(options))),
        lm_head_(register_module("lm_head", std::make_shared<GptHead>(transformer_->token_embedding()))) {
    draw();
    const double deviation = kGptDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
    for (const auto& parameter : named_parameters())
      if (ends_with_projection(parameter.key())) torch::nn::init::normal_(parameter.value(), 0, deviation);
  }

  at::Tensor forward(at::Tensor tokens) override { return lm_head_->forward(transformer_->forward(tokens)); }

  [[nodiscard]] std::string head() const override { return "lm_head"; }

 private:
  // The shared weight is drawn twice, as in Python, and the head's draw stays.
  void draw() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (const auto* linear = module->as<torch::nn::LinearImpl>()) {
        torch::nn::init::normal_(linear->weight, 0, kGptDeviation);
        if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
      } else if (const auto* embedding = module->as<torch::nn::EmbeddingImpl>()) {
        torch::nn::init::normal_(embedding->weight, 0, kGptDeviation);
      } else if (const auto* head = module->as<GptHead>()) {
        torch::nn::init::normal_(head->weight(), 0, kGptDeviation);
      }
    }
  }

  std::shared_ptr<GptTrunk> transformer_;
  std::shared_ptr<GptHead> lm_head_;
};

GptOptions read_gpt_options(const Options& options, const DataShape& data) {
  const GptOptions read = {.tokens = tokens_of(data, "gpt"),
                           .vocabulary = data.classes,
                           .layers = options.integer("layers"),
                           .heads = options.integer("heads"),
                           .width = options.integer("width"),
                           .dropout = options.number("dropout"),
                           .bias = options.flag("bias")};
  if (read.heads < 1 || read.width % read.heads != 0) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}/heads: {} heads cannot share a width of {}; choose a divisor of it",
                                options.pointer(), read.heads, read.width));
  }
  return read;
}

}  // namespace

/// gpt: nanoGPT's: a decoder of tokens, N × tokens in, N × tokens × vocabulary out. The data's tokens are the
/// most that it takes, and its classes the vocabulary. The embedding of tokens and the head are one parameter.
///
/// Options  layers, heads, width: width is a multiple of heads
///          dropout: share of values that is dropped in training
///          bias: whether linear layers and norms have one
void register_gpt(ModelRegistry& models) {
  models.add("gpt", "a decoder of tokens, nanoGPT's: 10.6 M parameters with 65 characters",
             [](const Options& options, const DataShape& data) {
               return std::make_shared<Gpt>(read_gpt_options(options, data));
             });
}

}  // namespace ddprun::models
