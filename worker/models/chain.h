#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <utility>

namespace ddprun::models {

/// A Sequential that can stand in a Sequential: libtorch's own cannot, because its forward is a template.
class Chain final : public torch::nn::SequentialImpl {
 public:
  at::Tensor forward(at::Tensor input) { return SequentialImpl::forward(std::move(input)); }
};

}  // namespace ddprun::models
