#include "worker/runtime/libtorch/autograd_node.h"
#include <ddprun/replicas.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

// What a module is made of: its trainable tensors, then the others, in one order for module and replica.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  const ModuleView view = view_of(module);
  std::vector<NamedTensor> tensors;
  for (const auto& parameter : view.parameters) tensors.emplace_back(parameter.name, parameter.tensor);
  for (const auto& [name, buffer] : view.buffers()) {
    if (buffer.defined()) tensors.emplace_back(name, buffer);
  }
  return tensors;
}

std::string form_of(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

bool is_same_device(const at::Device& a, const at::Device& b) {
  return a.type() == b.type() && std::max<int>(a.index(), 0) == std::max<int>(b.index(), 0);
}

std::string difference_between(const std::vector<NamedTensor>& original,
                               const std::vector<NamedTensor>& replica) {
  for (std::size_t i = 0; i < std::max(original.size(), replica.size()); ++i) {
    if (i >= replica.size()) return fmt::format("it lacks \"{}\"", original[i].first);
    const auto& [name, tensor] = replica[i];
    if (i >= original.size()) {
      return fmt::format("it has \"{}\", which in the module is not there or the same as another tensor",
                         name);
    }
    if (name != original[i].first) {
      return fmt::format("where the module has \"{}\" it has \"{}\"", original[i].first, name);
    }
    if (tensor.sizes() != original[i].second.sizes() || tensor.dtype() != original[i].second.dtype()) {
      return fmt::format("\"{}\" is {}, in the module it is {}", name, form_of(tensor),
                         form_of(original[i].second));
    }
  }
  return {};
}

// How many hold a tensor, and how many its memory.
std::pair<std::size_t, std::size_t> holders_of(const at::Tensor& tensor) {
  return {tensor.use_count(), tensor.has_storage() ? tensor.storage().use_count() : 0};
}

// Adds up what came back from the replicas of one parameter, always in the same order: the last replica's
// first, as autograd would if their parts of the batch had been computed one after the other.
struct SumOverReplicas final : torch::autograd::Node {
  SumOverReplicas(torch::autograd::Edge parameter, at::Device device) : device_(device) {
    add_next_edge(std::move(parameter));
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor sum;
    for (auto gradient = gradients.rbegin(); gradient != gradients.rend(); ++gradient) {
      if (!gradient->defined()) continue;
      const at::Tensor here = gradient->to(device_);
      sum = sum.defined() ? sum + here : here;
    }
    return {sum};
  }

 private:
  at::Device device_;
};

void copy_modes(const torch::nn::Module& original, torch::nn::Module& replica) {
  replica.train(original.is_training());
  const auto from = original.named_children();
  for (const auto& child : replica.named_children()) {
    if (const auto* same = from.find(child.key())) copy_modes(**same, *child.value());
  }
}

}  // namespace

struct ReplicaLink::State {
  torch::nn::Module& replica;
  std::vector<NamedTensor> tensors;
  std::vector<std::pair<std::size_t, std::size_t>> holders;  ///< of each tensor when nobody used it
};

ReplicaLink::ReplicaLink(torch::nn::Module& original, torch::nn::Module& replica, const std::string& who)
    : state_(std::make_unique<State>(State{.replica = replica, .tensors = tensors_of(replica)})) {
  const std::string difference = difference_between(tensors_of(original), state_->tensors);
  if (!difference.empty()) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}: a replica is unlike the module: {}; give option make_replica, a function "
                    "that builds the same module",
                    who, difference));
  }
  for (const auto& [name, tensor] : state_->tensors) state_->holders.push_back(holders_of(tensor));
}

ReplicaLink::~ReplicaLink() = default;

bool ReplicaLink::is_held() const {
  for (std::size_t i = 0; i < state_->tensors.size(); ++i) {
    if (holders_of(state_->tensors[i].second) != state_->holders[i]) return true;
  }
  return false;
}

bool ReplicaLink::fits(const torch::nn::Module& original) const {
  return difference_between(tensors_of(original), state_->tensors).empty();
}

void refresh(torch::nn::Module& original, const std::vector<ReplicaLink*>& links) {
  const bool with_gradients = at::GradMode::is_enabled();
  const at::NoGradGuard no_grad;
  for (const ReplicaLink* link : links) copy_modes(original, link->state_->replica);
  const std::vector<NamedTensor> tensors = tensors_of(original);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& source = tensors[i].second;
    NodePtr sum;
    if (with_gradients && source.requires_grad()) {
      sum = make_node<SumOverReplicas>(torch::autograd::impl::gradient_edge(source), source.device());
    }
    for (const ReplicaLink* link : links) {
      at::Tensor& copy = link->state_->tensors[i].second;
      torch::autograd::impl::set_gradient_edge(copy, {});
      copy.set_requires_grad(source.requires_grad());
      copy.copy_(source, /*non_blocking=*/source.is_cuda() && copy.is_cuda());
      if (sum) torch::autograd::set_history(copy, sum);
    }
  }
}

void check_home(const torch::nn::Module& module, const at::Device& device, const std::string& who) {
  for (const auto& [name, tensor] : tensors_of(module)) {
    if (is_same_device(tensor.device(), device)) continue;
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: \"{}\" is on {}, the first device is {}; move the module there first: "
                                "model->to(device)",
                                who, name, tensor.device().str(), device.str()));
  }
}

void clone_quietly(const torch::nn::Module& module, const std::string& who,
                   const std::function<void()>& clone) {
  at::Generator random = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = random.get_state();
  try {
    clone();
  } catch (const c10::Error& error) {
    random.set_state(state);
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: no replica of {} can be made ({}); give option make_replica, a function "
                                "that builds the same module, or derive the module from torch::nn::Cloneable "
                                "and make its parts in reset()",
                                who, module.name(), error.what_without_backtrace()));
  }
  random.set_state(state);
}

}  // namespace ddprun::runtime
