#include "worker/models/summary.h"

#include "tests/support/catch.h"
#include "worker/models/registry.h"
#include <ddprun/trainer/registry.h>

#include <numeric>

using namespace ddprun;
using namespace ddprun::models;

namespace {

std::shared_ptr<Model> make_model(const std::string& name, const DataShape& data,
                                  const std::string& options = "{}") {
  ModelRegistry registry("model");
  register_models(registry);
  return registry.at(name).make(Options(options), data);
}

DataShape colour_images(std::int64_t side, std::int64_t classes) {
  DataShape data;
  data.tensors = {{.name = "image", .sizes = {3, side, side}}};
  data.classes = classes;
  return data;
}

DataShape text() {
  DataShape data;
  data.tensors = {{.name = "tokens", .sizes = {8}, .dtype = at::kLong}};
  data.classes = 11;
  return data;
}

std::int64_t multiply_adds(const std::vector<LayerCost>& costs) {
  return std::accumulate(costs.begin(), costs.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerCost& cost) { return sum + cost.multiply_adds; });
}

}  // namespace

// The rounded numbers are torchvision's table ("GFLOPS").
TEST_CASE("a model costs as many multiply-adds as torchvision says") {
  const DataShape images = colour_images(224, 1000);
  CHECK(multiply_adds(layer_costs(*make_model("resnet18", images), images)) / 10'000'000 == 181);
  CHECK(multiply_adds(layer_costs(*make_model("resnet50", images), images)) / 10'000'000 == 408);
  const auto mobilenet = make_model("mobilenet_v3_small", images, R"({"dropout": 0})");
  CHECK(multiply_adds(layer_costs(*mobilenet, images)) / 1'000'000 == 56);
}

TEST_CASE("a summary names each layer with its output and totals") {
  const DataShape images = colour_images(32, 10);
  const auto model = make_model("lenet", images);
  CHECK(summary(*model, images) ==
        "layer  kind                      output    parameters     mult-adds\n"
        "conv1  Conv2d                   6×28×28           456      352.80 k\n"
        "conv2  Conv2d                  16×10×10         2,416      240.00 k\n"
        "fc1    Linear                       120        48,120       48.00 k\n"
        "fc2    Linear                        84        10,164       10.08 k\n"
        "fc3    Linear                        10           850           840\n"
        "total: 62,006 parameters in 0.2 MiB, 651.72 k multiply-adds a sample\n");
  CHECK(model->is_training());
}

TEST_CASE("a tied parameter is counted once, and attention has its share") {
  const auto model =
      make_model("gpt", text(), R"({"layers": 1, "heads": 2, "width": 8, "dropout": 0, "bias": false})");
  const std::vector<LayerCost> costs = layer_costs(*model, text());
  const auto named = [&](const std::string& name) {
    for (const LayerCost& cost : costs)
      if (cost.name == name) return cost;
    return LayerCost{};
  };
  CHECK(named("transformer.wte").parameters == 11 * 8);
  CHECK(named("lm_head").parameters == 0);
  CHECK(named("lm_head").multiply_adds == 8 * 8 * 11);
  CHECK(named("").kind == "attention");
  CHECK(named("").multiply_adds == 2 * 8 * 8 * 8);
}
