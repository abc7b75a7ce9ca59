#include <ddprun/checkpoint.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace ddprun {
namespace {

// torch::nn::Module::named_parameters() recurses depth first over parameters alone; Python lists a module's
// parameters and buffers together before its children.
void collect(const torch::nn::Module& module, const std::string& prefix, PtDict& out) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    out.add(prefix + item.key(), item.value());
  for (const auto& item : module.named_buffers(/*recurse=*/false)) out.add(prefix + item.key(), item.value());
  for (const auto& item : module.named_children()) collect(*item.value(), prefix + item.key() + ".", out);
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

}  // namespace

PtDict state_dict(const torch::nn::Module& module) {
  PtDict state;
  state.ordered = true;
  collect(module, "", state);
  return state;
}

void load_state_dict(torch::nn::Module& module, const PtDict& state) {
  const PtDict own = state_dict(module);
  std::map<std::string, const PtValue*> given;
  for (const auto& [name, value] : state.entries) given[name.as_string()] = &value;
  std::vector<std::string> problems;
  for (const auto& [key, value] : own.entries) {
    const std::string& name = key.as_string();
    const auto found = given.find(name);
    if (found == given.end()) {
      problems.push_back(fmt::format("{} is missing", name));
      continue;
    }
    const at::Tensor& mine = value.as_tensor();
    const PtValue& theirs = *found->second;
    given.erase(found);
    if (!theirs.is_tensor()) {
      problems.push_back(fmt::format("{} is {}, not a tensor", name, theirs.kind()));
    } else if (theirs.as_tensor().sizes() != mine.sizes() ||
               theirs.as_tensor().scalar_type() != mine.scalar_type()) {
      problems.push_back(
          fmt::format("{} is {}, this model has {}", name, describe(theirs.as_tensor()), describe(mine)));
    }
  }
  for (const auto& [name, value] : given) problems.push_back(fmt::format("{} is not in this model", name));
  if (!problems.empty()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("the weights are of another model: {}", fmt::join(problems, "; ")));
  }

  const at::NoGradGuard no_grad;
  for (const auto& [key, value] : own.entries) {
    at::Tensor mine = value.as_tensor();
    mine.copy_(state.at(key.as_string()).as_tensor());
  }
}

}  // namespace ddprun
