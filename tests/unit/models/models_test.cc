#include "configs/schemas.h"
#include "tests/support/catch.h"
#include "worker/models/registry.h"
#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>
#include <ddprun/trainer/registry.h>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include <algorithm>

using Catch::Matchers::Message;
using namespace ddprun;

namespace {

ModelRegistry the_models() {
  ModelRegistry registry("model");
  models::register_models(registry);
  return registry;
}

DataShape data_of(std::vector<std::int64_t> sizes, std::int64_t classes) {
  DataShape data;
  data.tensors = {{.name = sizes.size() == 1 ? "tokens" : "image", .sizes = std::move(sizes)}};
  data.classes = classes;
  return data;
}

std::shared_ptr<Model> make(const std::string& name, const DataShape& data,
                            const std::string& options = "{}") {
  return the_models().at(name).make(Options(options, "/model"), data);
}

bool is_text(const std::string& name) { return name == "gpt"; }

// As the job file's schema would give it, but for the sizes of a GPT.
std::string options_of(const std::string& name) {
  if (is_text(name)) return R"({"layers": 1, "heads": 2, "width": 8, "dropout": 0, "bias": true})";
  return R"({"hidden": [16], "dropout": 0.5, "shortcut": "pad", "patch_size": 16})";
}

std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const auto& parameter : view_of(model).parameters) count += parameter.tensor.numel();
  return count;
}

}  // namespace

// One channel and eleven classes: no net counts on three and a thousand.
TEST_CASE("every model makes classes of images, or words of text, and every parameter gets a gradient",
          "[.slow]") {
  for (const std::string& name : the_models().names()) {
    if (name == "torchscript") continue;  // what a file says
    INFO(name);
    const auto model =
        make(name, is_text(name) ? data_of({8}, 11) : data_of({1, 32, 32}, 11), options_of(name));
    const at::Tensor output =
        model->forward(is_text(name) ? at::randint(11, {2, 8}) : at::randn({2, 1, 32, 32}));
    CHECK(output.sizes() == (is_text(name) ? at::IntArrayRef{2, 8, 11} : at::IntArrayRef{2, 11}));
    output.square().sum().backward();
    for (const auto& parameter : view_of(*model).parameters) {
      INFO(parameter.name);
      CHECK(parameter.tensor.grad().defined());
    }
    if (!model->head().empty())
      CHECK(state_dict(*model).at(model->head() + ".weight").as_tensor().size(0) == 11);
  }
}

TEST_CASE("every batch norm can be made one of all ranks") {
  const auto is_out_of_reach = [](const std::shared_ptr<torch::nn::Module>& module) {
    return module->as<torch::nn::BatchNorm2dImpl>() != nullptr;
  };
  for (const std::string name : {"resnet18", "resnet20", "mobilenet_v3_small"}) {
    INFO(name);
    const auto modules = make(name, data_of({1, 32, 32}, 11), options_of(name))->modules();
    CHECK(std::none_of(modules.begin(), modules.end(), is_out_of_reach));
  }
}

TEST_CASE("a job file can name every model, and nothing else") {
  const auto schema = nlohmann::json::parse(config::train_schema_text());
  auto names = schema.at(nlohmann::json::json_pointer("/properties/model/properties/type/enum"))
                   .get<std::vector<std::string>>();
  std::sort(names.begin(), names.end());
  CHECK(names == the_models().names());
}

TEST_CASE("models have as many parameters as their papers and torchvision say") {
  const auto count = [](const std::string& name, const DataShape& data, const std::string& options = "{}") {
    return count_parameters(*make(name, data, options));
  };
  CHECK(count("lenet", data_of({1, 28, 28}, 10)) == 61'706);
  CHECK(count("resnet20", data_of({3, 32, 32}, 10), R"({"shortcut": "pad"})") == 269'722);
  CHECK(count("resnet56", data_of({3, 32, 32}, 10), R"({"shortcut": "pad"})") == 853'018);
  CHECK(count("resnet20", data_of({3, 32, 32}, 10), R"({"shortcut": "projection"})") == 272'474);
  CHECK(count("resnet18", data_of({3, 224, 224}, 1000)) == 11'689'512);
  CHECK(count("mobilenet_v3_small", data_of({3, 224, 224}, 1000), R"({"dropout": 0})") == 2'542'856);
}

TEST_CASE("a GPT's head and its embedding of tokens are one parameter") {
  const auto model = make("gpt", data_of({8}, 11), options_of("gpt"));
  const PtDict state = state_dict(*model);
  CHECK(state.at("lm_head.weight").as_tensor().is_same(state.at("transformer.wte.weight").as_tensor()));
}

TEST_CASE("data that a model cannot take is refused with both") {
  CHECK_THROWS_MATCHES(
      make("resnet18", data_of({64}, 10)), Exception,
      Message("/model/type: resnet18 takes images, and the data gives \"tokens\" of shape [64]; choose a "
              "model for such data, or other data"));
  CHECK_THROWS_MATCHES(
      make("gpt", data_of({3, 32, 32}, 10), options_of("gpt")), Exception,
      Message("/model/type: gpt takes tokens of a vocabulary, and the data gives \"image\" of shape "
              "[3, 32, 32]; choose a model for such data, or other data"));
  CHECK_THROWS_MATCHES(
      make("vgg16", data_of({1, 28, 28}, 10)), Exception,
      Message("/model/type: vgg16 takes images of at least 32 × 32 pixels, and the data gives \"image\" of "
              "shape [1, 28, 28]; choose a model for such data, or other data"));
}

TEST_CASE("options that do not fit the data or each other are refused") {
  CHECK_THROWS_MATCHES(make("vit_tiny", data_of({3, 30, 32}, 10), R"({"patch_size": 8})"), Exception,
                       Message("/model/patch_size: 30 × 32 pixels cannot be cut into squares of 8; choose a "
                               "divisor of both sides"));
  CHECK_THROWS_MATCHES(
      make("gpt", data_of({8}, 11), R"({"layers": 1, "heads": 5, "width": 16, "dropout": 0, "bias": false})"),
      Exception, Message("/model/heads: 5 heads cannot share a width of 16; choose a divisor of it"));
}
