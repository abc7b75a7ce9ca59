#include "worker/models/weights.h"

#include "tests/support/catch.h"
#include "worker/models/registry.h"
#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

using Catch::Matchers::Message;
using namespace ddprun;
using namespace ddprun::models;

namespace {

DataShape digits(std::int64_t classes) {
  DataShape data;
  data.tensors = {{.name = "image", .sizes = {1, 28, 28}}};
  data.classes = classes;
  return data;
}

ModelFactory lenet() {
  ModelRegistry registry("model");
  register_models(registry);
  return registry.at("lenet").make;
}

std::shared_ptr<Model> make_lenet(std::int64_t classes) { return lenet()(Options("{}"), digits(classes)); }

PtDict copy_of(const torch::nn::Module& model) {
  PtDict copy;
  for (const auto& [name, value] : state_dict(model).entries) copy.set(name, value.as_tensor().clone());
  return copy;
}

bool is_same(const PtDict& one, const PtDict& other, const std::string& name) {
  return at::equal(one.at(name).as_tensor(), other.at(name).as_tensor());
}

}  // namespace

TEST_CASE("weights go into a model of the same shape") {
  const PtDict weights = copy_of(*make_lenet(10));
  const auto model = make_with_weights(lenet(), Options("{}"), digits(10), weights);
  for (const auto& [name, value] : weights.entries)
    CHECK(is_same(weights, state_dict(*model), name.as_string()));
}

TEST_CASE("every name that is missing, too many or misshapen is listed, and nothing has changed") {
  const auto model = make_lenet(10);
  const PtDict before = copy_of(*model);
  PtDict weights;
  for (const auto& [name, value] : copy_of(*make_lenet(12)).entries) {
    const std::string text = name.as_string();
    weights.set(text == "conv1.bias" ? "stem.bias" : text, value);
  }
  CHECK_THROWS_MATCHES(
      load_weights(*model, weights, {}), Exception,
      Message("the weights do not fit the model: conv1.bias is missing; fc3.weight is Float [12, 84], this "
              "model has Float [10, 84]; fc3.bias is Float [12], this model has Float [10]; stem.bias is not "
              "in this model; take weights of this model, or let these names differ"));
  CHECK(is_same(before, state_dict(*model), "conv2.weight"));
}

TEST_CASE("the names that do not fit are listed, however many they are") {
  const auto model = make_lenet(10);
  PtDict weights = copy_of(*model);
  std::string all;
  for (int i = 10; i < 50; ++i) {
    const std::string name = "extra." + std::to_string(i);
    weights.set(name, at::zeros({1}));
    all += name + " is not in this model; ";
  }
  CHECK_THROWS_MATCHES(load_weights(*model, weights, {}), Exception,
                       Message("the weights do not fit the model: " + all +
                               "take weights of this model, or let these names differ"));
}

TEST_CASE("what may differ keeps its own values, and is told") {
  const auto model = make_lenet(10);
  const PtDict before = copy_of(*model);
  const PtDict weights = copy_of(*make_lenet(12));
  CHECK(load_weights(*model, weights, {"fc3.*"}) == std::vector<std::string>{"fc3.weight", "fc3.bias"});
  CHECK(is_same(before, state_dict(*model), "fc3.weight"));
  CHECK(is_same(weights, state_dict(*model), "fc2.weight"));
  CHECK_THROWS_MATCHES(load_weights(*model, copy_of(*model), {"classifier.*"}), Exception,
                       Message("the weights do not fit the model: \"classifier.*\" matches no name; take "
                               "weights of this model, or let these names differ"));
}

TEST_CASE("a head for other classes is drawn after all of the model") {
  const PtDict weights = copy_of(*make_lenet(12));
  torch::manual_seed(5);
  const auto model = make_with_weights(lenet(), Options("{}"), digits(10), weights);
  torch::manual_seed(5);
  make_lenet(12);
  const torch::nn::Linear head(84, 10);
  CHECK(at::equal(state_dict(*model).at("fc3.weight").as_tensor(), head->weight));
  CHECK(at::equal(state_dict(*model).at("fc3.bias").as_tensor(), head->bias));
  CHECK(is_same(weights, state_dict(*model), "fc2.bias"));
  CHECK(model->forward(at::zeros({3, 1, 28, 28})).sizes() == at::IntArrayRef{3, 10});
}

TEST_CASE("a part that stands before all names of a file, and before none of the model's, is left out") {
  const PtDict weights = copy_of(*make_lenet(12));
  PtDict given;
  for (const auto& [name, value] : weights.entries) given.set("model." + name.as_string(), value);
  std::string prefix;
  const auto model = make_with_weights(lenet(), Options("{}"), digits(10), given, {}, &prefix);
  CHECK(prefix == "model.");
  CHECK(is_same(weights, state_dict(*model), "fc2.bias"));
  CHECK(foreign_prefix(weights, state_dict(*model)).empty());
  given.set("loss.weight", at::ones({2}));
  CHECK(foreign_prefix(given, state_dict(*model)).empty());
  PtDict other;
  other.set("model.stem.weight", at::ones({2}));
  CHECK(foreign_prefix(other, state_dict(*model)).empty());
}

TEST_CASE("counters of batches that an old file has not stay as they are") {
  ModelRegistry registry("model");
  register_models(registry);
  const auto model = registry.at("resnet20").make(Options(R"({"shortcut": "pad"})"), digits(10));
  PtDict weights;
  for (const auto& [name, value] : copy_of(*model).entries)
    if (!name.as_string().ends_with("num_batches_tracked")) weights.set(name, value);
  CHECK(load_weights(*model, weights, {}).empty());
}

TEST_CASE("a state dict is found alone, in a checkpoint, and behind DistributedDataParallel's prefix") {
  PtDict state;
  state.set("module.fc.weight", at::ones({2}));
  PtDict checkpoint;
  checkpoint.set("epoch", 3);
  checkpoint.set("state_dict", state);
  CHECK(find_state_dict(state, "a.pt").find("fc.weight") != nullptr);
  CHECK(find_state_dict(checkpoint, "a.pt").find("fc.weight") != nullptr);
  CHECK_THROWS_MATCHES(
      find_state_dict(PtValue(3), "a.pt"), Exception,
      Message("a.pt has no weights: expected a state dict (names and tensors), alone or under "
              "\"model\" or \"state_dict\", got an int"));
}

TEST_CASE("frozen parameters require no gradient, and a pattern that matches none is refused") {
  const auto model = make_lenet(10);
  CHECK(freeze(*model, {"conv*", "fc1.bias"}) ==
        std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.bias"});
  const PtDict state = state_dict(*model);
  CHECK_FALSE(state.at("conv2.weight").as_tensor().requires_grad());
  CHECK(state.at("fc1.weight").as_tensor().requires_grad());
  CHECK_THROWS_MATCHES(
      freeze(*model, {"layer1.*"}), Exception,
      Message("nothing to freeze: \"layer1.*\" matches no parameter; there are conv1.weight, "
              "…, fc3.bias"));
  CHECK_THROWS_MATCHES(freeze(*model, {"*"}), Exception,
                       Message("all 10 parameters would be frozen, and nothing would learn; leave some out"));
}
