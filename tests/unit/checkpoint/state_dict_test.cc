#include "tests/support/catch.h"
#include <ddprun/checkpoint.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

using namespace ddprun;

namespace {

struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 3)
      : first(register_module("first", torch::nn::Linear(2, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))) {
    scale = register_parameter("scale", torch::ones({1}));
    count = register_buffer("count", torch::zeros({}, torch::kLong));
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  at::Tensor scale, count;
};

std::vector<std::string> names(const PtDict& dict) {
  std::vector<std::string> all;
  for (const auto& [key, value] : dict.entries) all.push_back(key.as_string());
  return all;
}

}  // namespace

TEST_CASE("a state_dict has Python's names in Python's order") {
  const Net net;
  CHECK(names(state_dict(net)) == std::vector<std::string>{"scale", "count", "first.weight", "first.bias",
                                                           "norm.weight", "norm.bias", "norm.running_mean",
                                                           "norm.running_var", "norm.num_batches_tracked"});
}

TEST_CASE("loading a state_dict copies every tensor") {
  Net from;
  Net to;
  load_state_dict(to, state_dict(from));
  CHECK(at::equal(to.first->weight, from.first->weight));
  CHECK(to.first->weight.data_ptr() != from.first->weight.data_ptr());
}

TEST_CASE("a state_dict of another model is refused with every difference, and nothing is copied") {
  Net net;
  const at::Tensor before = net.first->weight.clone();
  PtDict state = state_dict(Net(5));
  state.entries.erase(state.entries.begin());
  state.set("extra", at::zeros({1}));
  CHECK_THROWS_WITH(
      load_state_dict(net, state),
      "the weights are of another model: scale is missing; first.weight is Float [5, 2], this model has "
      "Float "
      "[3, 2]; first.bias is Float [5], this model has Float [3]; norm.weight is Float [5], this model has "
      "Float "
      "[3]; norm.bias is Float [5], this model has Float [3]; norm.running_mean is Float [5], this model has "
      "Float [3]; norm.running_var is Float [5], this model has Float [3]; extra is not in this model");
  CHECK(at::equal(net.first->weight, before));
}

TEST_CASE("a state_dict of another model is refused with its names, however many they are") {
  Net net;
  PtDict state = state_dict(net);
  std::string all = "the weights are of another model: ";
  for (int i = 10; i < 50; ++i) {
    const std::string name = "extra." + std::to_string(i);
    state.set(name, at::zeros({1}));
    all += (i > 10 ? "; " : "") + name + " is not in this model";
  }
  CHECK_THROWS_WITH(load_state_dict(net, state), all);
}
