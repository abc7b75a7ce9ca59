// Prints what a .pt or safetensors file holds, one value a line, for checkpoint_test.py: path, kind, and content.

#include "worker/runtime/checkpoint/safetensors.h"

#include <torch/types.h>

#include <cstdio>
#include <string>

namespace {

using namespace ddprun;

void describe(const std::string& path, const PtValue& value);

struct Describer {
  const std::string& path;

  void line(const std::string& text) const { std::printf("%s %s\n", path.c_str(), text.c_str()); }

  void operator()(std::monostate) const { line("None"); }
  void operator()(bool value) const { line(value ? "True" : "False"); }
  void operator()(std::int64_t value) const { line(std::to_string(value)); }
  void operator()(double value) const {
    char text[64];
    std::snprintf(text, sizeof text, "%a", value);
    line(text);
  }
  void operator()(const std::string& value) const { line("'" + value + "'"); }
  void operator()(const at::Tensor& tensor) const {
    std::string text = std::string(at::toString(tensor.scalar_type())) + " [";
    for (const std::int64_t size : tensor.sizes()) text += std::to_string(size) + ",";
    text += "] sum ";
    char sum[64];
    std::snprintf(sum, sizeof sum, "%.9g",
                  tensor.numel() > 0 ? tensor.to(at::kDouble).sum().item<double>() : 0.0);
    line(text + sum);
  }
  void operator()(const PtList& list) const { sequence("list", list.items); }
  void operator()(const PtTuple& tuple) const { sequence("tuple", tuple.items); }
  void sequence(const std::string& kind, const std::vector<PtValue>& items) const {
    line(kind + " " + std::to_string(items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) describe(path + "/" + std::to_string(i), items[i]);
  }
  void operator()(const PtDict& dict) const {
    line((dict.ordered ? "OrderedDict " : "dict ") + std::to_string(dict.entries.size()));
    for (const auto& [key, value] : dict.entries) {
      const auto* number = std::get_if<std::int64_t>(&key.alternatives());
      describe(path + "/" + (number != nullptr ? std::to_string(*number) : key.as_string()), value);
    }
  }
};

void describe(const std::string& path, const PtValue& value) {
  std::visit(Describer{path}, value.alternatives());
}

}  // namespace

int main(int, char** argv) {
  try {
    describe("", runtime::load_pt_or_safetensors(argv[1]));
    return 0;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    return 1;
  }
}
