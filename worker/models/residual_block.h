#pragma once

#include <ddprun/sync_batch_norm.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <vector>

namespace ddprun::models {

/// A k × k convolution without bias that keeps the size at stride 1.
torch::nn::Conv2dOptions same_size(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                   std::int64_t stride = 1);

/// relu(body(x) + shortcut(x)): He et al., "Deep Residual Learning for Image Recognition" (2015). The body is
/// conv1, bn1, relu, conv2, bn2, relu, …, without the last relu.
class ResidualBlock : public torch::nn::Module {
 public:
  explicit ResidualBlock(const std::vector<torch::nn::Conv2dOptions>& body);

  at::Tensor forward(at::Tensor input);

  /// A 1 × 1 convolution and a norm in place of the input itself, under the name "downsample".
  void project(std::int64_t in, std::int64_t out, std::int64_t stride);

 protected:
  virtual at::Tensor shortcut(const at::Tensor& input);

 private:
  struct Layer {
    at::Tensor forward(const at::Tensor& input) { return norm->forward(conv->forward(input)); }
    torch::nn::Conv2d conv;
    SyncBatchNorm norm;
  };
  std::vector<Layer> layers_;
  torch::nn::Sequential downsample_{nullptr};
};

}  // namespace ddprun::models
