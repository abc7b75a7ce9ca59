// Makes models for models_test.py. Reads one JSON object a line, and answers with one:
//   {"model": NAME, "options": {…}, "sizes": [3, 32, 32], "classes": 10}   the SHA-256 of all first weights
//   and "weights": FILE.pt with a state dict, maybe for other classes     the same of what becomes of them
//   and "inputs": FILE.pt with "input", "target" and maybe "weights"       digests of all tensors of one step that
//                                                                          updates nothing
//   {"names": true}                                                        of all models
#include "worker/models/registry.h"
#include "worker/models/weights.h"
#include <ddprun/checkpoint.h>
#include <ddprun/module_view.h>
#include <ddprun/pt_file.h>
#include <ddprun/trainer/registry.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <iostream>

namespace ddprun {
namespace {

using nlohmann::json;

ModelRegistry all_models() {
  ModelRegistry registry("model");
  models::register_models(registry);
  return registry;
}

/// SHA-256 over the bytes of tensors, one after the other.
class Digest {
 public:
  Digest() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }

  void add(const at::Tensor& tensor) {
    const at::Tensor values = tensor.detach().contiguous();
    EVP_DigestUpdate(context_.get(), values.const_data_ptr(), values.nbytes());
  }

  std::string text() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    std::string hexadecimal;
    for (unsigned int i = 0; i < size; ++i) hexadecimal += fmt::format("{:02x}", digest[i]);
    return hexadecimal.substr(0, 16);
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

std::string digest(const at::Tensor& tensor) {
  Digest digest;
  digest.add(tensor);
  return digest.text();
}

// A list of [name, type, digest], because the order counts.
json describe(const PtDict& state) {
  json list = json::array();
  for (const auto& [name, value] : state.entries) {
    const at::Tensor& tensor = value.as_tensor();
    list.push_back({name.as_string(), at::toString(tensor.scalar_type()), digest(tensor)});
  }
  return list;
}

json step(Model& model, const PtDict& inputs) {
  json reply = {{"initial", describe(state_dict(model))}};
  if (const PtValue* weights = inputs.find("weights")) load_state_dict(model, weights->as_dict());
  const at::Tensor input = inputs.at("input").as_tensor();
  model.eval();
  {
    const at::NoGradGuard no_grad;
    reply["evaluated"] = digest(model.forward(input));
  }
  model.train();
  torch::manual_seed(1);
  const at::Tensor output = model.forward(input);
  reply["trained"] = digest(output);
  at::cross_entropy_loss(output.flatten(0, -2), inputs.at("target").as_tensor().flatten()).backward();
  PtDict gradients;
  for (const auto& parameter : view_of(model).parameters)
    gradients.set(parameter.name, parameter.tensor.grad());
  reply["gradients"] = describe(gradients);
  reply["after"] = describe(state_dict(model));
  return reply;
}

json answer(const json& question) {
  if (question.contains("names")) return all_models().names();
  DataShape data;
  data.tensors = {{.name = "input", .sizes = question.at("sizes").get<std::vector<std::int64_t>>()}};
  data.classes = question.at("classes");
  torch::manual_seed(0);
  const ModelFactory make = all_models().at(question.at("model")).make;
  const Options options(question.at("options").dump(), "/model");
  std::shared_ptr<Model> model;
  if (question.contains("weights")) {
    const std::string file = question.at("weights");
    model = models::make_with_weights(make, options, data, models::find_state_dict(load_pt(file), file));
  } else {
    model = make(options, data);
  }
  if (question.contains("inputs")) return step(*model, load_pt(question.at("inputs")).as_dict());
  Digest digest;
  for (const auto& [name, value] : state_dict(*model).entries) digest.add(value.as_tensor());
  return {{"sha256", digest.text()}, {"head", model->head()}};
}

}  // namespace
}  // namespace ddprun

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);)
      std::cout << ddprun::answer(nlohmann::json::parse(line)).dump() << std::endl;
    return 0;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    return 1;
  }
}
