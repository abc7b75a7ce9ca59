#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::models {

/// An image classifier: N × 1 × 28 × 28 floats in, N × 10 logits out.
class Model : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor images) = 0;
};

/// Which model, with the numbers it takes; the rest of the job file's /model.
struct ModelOptions {
  std::string type = "mnist_cnn";         ///< "mlp", "mnist_cnn" or "two_conv"
  std::vector<std::int64_t> hidden{128};  ///< mlp: width of each hidden layer
  double dropout = 0;                     ///< mlp, mnist_cnn
};

inline constexpr std::int64_t kImageSide = 28;
inline constexpr std::int64_t kClasses = 10;

/// Builds it with libtorch's initialisation, drawn from the default CPU generator. `type` is one of the
/// three.
std::shared_ptr<Model> make_model(const ModelOptions& options);

}  // namespace ddprun::models
