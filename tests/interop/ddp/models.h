#pragma once

#include <ddprun/group.h>

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>

namespace ddprun::interop {

/// The models of the interop matrix, one for each of models.py: same parameters, same order, same ATen
/// operators, so that equal weights and inputs give equal bits.
struct Model : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

std::shared_ptr<Model> make_model(const std::string& name, const Group& group);

}  // namespace ddprun::interop
