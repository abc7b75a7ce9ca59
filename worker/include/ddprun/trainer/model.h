#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>

namespace ddprun {

/// A model that a job can name: a torch module of one tensor in and one out. Names of its parameters and
/// buffers are those of its Python sister, so that a state dict fits both.
class Model : public torch::nn::Module {
 public:
  ~Model() override;

  /// input    the first tensor of a batch: N × DataShape::tensors[0].sizes
  /// returns  what the task expects: N × classes for classification
  virtual at::Tensor forward(at::Tensor input) = 0;

  /// The module that turns features into classes ("fc", "classifier.6"): what is made anew when weights come
  /// from data with other classes. Empty: it has none.
  [[nodiscard]] virtual std::string head() const { return {}; }
};

}  // namespace ddprun
