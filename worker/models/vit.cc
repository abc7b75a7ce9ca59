#include "worker/models/linear.h"
#include "worker/models/shapes.h"
#include "worker/runtime/libtorch/trunc_normal.h"
#include <ddprun/exception.h>
#include <ddprun/trainer/registry.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

namespace ddprun::models {
namespace {

struct VitSize {
  std::int64_t width;
  std::int64_t heads;
};

constexpr int kVitLayers = 12;
constexpr std::int64_t kVitWidening = 4;  ///< of the hidden layer in a block

torch::nn::LayerNorm vit_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

/// Python's nn.MultiheadAttention of an input with itself. Its steps and the layout of what is in between are
/// Python's as well: sums over positions and samples come in that order, which the gradients' last bits tell.
class VitAttention final : public torch::nn::Module {
 public:
  VitAttention(std::int64_t width, std::int64_t heads)
      : heads_(heads), out_proj_(register_module("out_proj", torch::nn::Linear(width, width))) {
    in_proj_weight_ = register_parameter("in_proj_weight", at::empty({3 * width, width}));
    in_proj_bias_ = register_parameter("in_proj_bias", at::zeros({3 * width}));
    torch::nn::init::xavier_uniform_(in_proj_weight_);
    torch::nn::init::zeros_(out_proj_->bias);
  }

  /// N × positions × width, as is what it gives. No N is a number here: a trace would keep it.
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input.transpose(1, 0);
    const std::int64_t positions = x.size(0);
    const std::int64_t width = x.size(2);
    const at::Tensor projected = at::linear(x, in_proj_weight_, in_proj_bias_)
                                     .unflatten(-1, {3, width})
                                     .unsqueeze(0)
                                     .transpose(0, -2)
                                     .squeeze(-2)
                                     .contiguous();
    const auto by_head = [&](std::int64_t which) {
      return projected[which]
          .view({positions, -1, width / heads_})
          .transpose(0, 1)
          .view({-1, heads_, positions, width / heads_});
    };
    const at::Tensor mixed = at::scaled_dot_product_attention(by_head(0), by_head(1), by_head(2))
                                 .permute({2, 0, 1, 3})
                                 .contiguous()
                                 .view({-1, width});
    return linear_forward(out_proj_, mixed).view({positions, -1, width}).transpose(1, 0);
  }

 private:
  std::int64_t heads_;
  torch::nn::Linear out_proj_;
  at::Tensor in_proj_weight_;
  at::Tensor in_proj_bias_;
};

class VitMlp final : public torch::nn::Module {
 public:
  VitMlp(std::int64_t width, double dropout)
      : widen_(register_module("0", torch::nn::Linear(width, kVitWidening * width))),
        narrow_(register_module("3", torch::nn::Linear(kVitWidening * width, width))),
        dropout_(register_module("4", torch::nn::Dropout(dropout))) {
    for (const torch::nn::Linear& linear : {widen_, narrow_}) {
      torch::nn::init::xavier_uniform_(linear->weight);
      torch::nn::init::normal_(linear->bias, 0, 1e-6);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor hidden = dropout_->forward(at::gelu(linear_forward(widen_, input)));
    return dropout_->forward(linear_forward(narrow_, hidden));
  }

 private:
  torch::nn::Linear widen_;
  torch::nn::Linear narrow_;
  torch::nn::Dropout dropout_;
};

class VitBlock final : public torch::nn::Module {
 public:
  VitBlock(const VitSize& size, double dropout)
      : ln_1_(register_module("ln_1", vit_norm(size.width))),
        self_attention_(
            register_module("self_attention", std::make_shared<VitAttention>(size.width, size.heads))),
        dropout_(register_module("dropout", torch::nn::Dropout(dropout))),
        ln_2_(register_module("ln_2", vit_norm(size.width))),
        mlp_(register_module("mlp", std::make_shared<VitMlp>(size.width, dropout))) {}

  at::Tensor forward(at::Tensor input) {
    const at::Tensor x = dropout_->forward(self_attention_->forward(ln_1_->forward(input))) + input;
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<VitAttention> self_attention_;
  torch::nn::Dropout dropout_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<VitMlp> mlp_;
};

class VitEncoder final : public torch::nn::Module {
 public:
  VitEncoder(const VitSize& size, std::int64_t positions, double dropout) {
    pos_embedding_ =
        register_parameter("pos_embedding", at::empty({1, positions, size.width}).normal_(0, 0.02));
    dropout_ = register_module("dropout", torch::nn::Dropout(dropout));
    for (int i = 0; i < kVitLayers; ++i)
      layers_->push_back("encoder_layer_" + std::to_string(i), std::make_shared<VitBlock>(size, dropout));
    register_module("layers", layers_);
    ln_ = register_module("ln", vit_norm(size.width));
  }

  at::Tensor forward(const at::Tensor& input) {
    return ln_->forward(layers_->forward(dropout_->forward(input + pos_embedding_)));
  }

 private:
  at::Tensor pos_embedding_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Sequential layers_;
  torch::nn::LayerNorm ln_{nullptr};
};

struct VitOptions {
  VitSize size;
  ImageSize images;
  std::int64_t patch_size;
  std::int64_t classes;
  double dropout;
};

class VisionTransformer final : public Model {
 public:
  explicit VisionTransformer(const VitOptions& options) {
    const std::int64_t width = options.size.width;
    const std::int64_t patch = options.patch_size;
    const std::int64_t patches = (options.images.height / patch) * (options.images.width / patch);
    class_token_ = register_parameter("class_token", at::zeros({1, 1, width}));
    conv_proj_ = register_module(
        "conv_proj",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(options.images.channels, width, patch).stride(patch)));
    encoder_ =
        register_module("encoder", std::make_shared<VitEncoder>(options.size, patches + 1, options.dropout));
    head_ = torch::nn::Linear(width, options.classes);
    heads_->push_back("head", head_);
    register_module("heads", heads_);

    const auto fan_in = static_cast<double>(options.images.channels * patch * patch);
    runtime::trunc_normal_(conv_proj_->weight, std::sqrt(1 / fan_in));
    torch::nn::init::zeros_(conv_proj_->bias);
    torch::nn::init::zeros_(head_->weight);
    torch::nn::init::zeros_(head_->bias);
  }

  at::Tensor forward(at::Tensor images) override {
    const at::Tensor patches = conv_proj_->forward(images).flatten(2).permute({0, 2, 1});
    const at::Tensor x = at::cat({class_token_.expand_as(patches.slice(1, 0, 1)), patches}, 1);
    return heads_->forward(encoder_->forward(x).select(1, 0));
  }

  [[nodiscard]] std::string head() const override { return "heads.head"; }

 private:
  at::Tensor class_token_;
  torch::nn::Conv2d conv_proj_{nullptr};
  std::shared_ptr<VitEncoder> encoder_;
  torch::nn::Linear head_{nullptr};
  torch::nn::Sequential heads_;
};

void add_vit(ModelRegistry& models, const std::string& name, const VitSize& size) {
  const std::string about = fmt::format("a vision transformer, torchvision's: {} layers, {} wide, {} heads",
                                        kVitLayers, size.width, size.heads);
  models.add(name, about, [name, size](const Options& options, const DataShape& data) {
    const std::int64_t patch = options.integer("patch_size");
    const ImageSize images = images_of(data, name, patch);
    if (images.height % patch != 0 || images.width % patch != 0) {
      throw Exception(
          ErrorCode::kConfig,
          fmt::format("{}/patch_size: {} × {} pixels cannot be cut into squares of {}; choose a divisor of "
                      "both sides",
                      options.pointer(), images.height, images.width, patch));
    }
    return std::make_shared<VisionTransformer>(VitOptions{.size = size,
                                                          .images = images,
                                                          .patch_size = patch,
                                                          .classes = outputs_of(data),
                                                          .dropout = options.number("dropout")});
  });
}

}  // namespace

/// vit_tiny, vit_small, vit_base: torchvision's VisionTransformer with 12 layers of width 192, 384 and 768 and
/// 3, 6 and 12 heads; vit_base with patches of 16 is its vit_b_16. The images' sides are multiples of the
/// patch's.
///
/// In evaluation it computes as in training. Python's attention then takes a fast path that rounds otherwise,
/// unless torch.backends.mha.set_fastpath_enabled(False) was called.
///
/// Options  patch_size: side of the squares that an image is cut into
///          dropout: share of values that is dropped in training
void register_vit(ModelRegistry& models) {
  add_vit(models, "vit_tiny", {.width = 192, .heads = 3});
  add_vit(models, "vit_small", {.width = 384, .heads = 6});
  add_vit(models, "vit_base", {.width = 768, .heads = 12});
}

}  // namespace ddprun::models
