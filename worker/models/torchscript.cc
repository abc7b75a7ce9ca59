#include <ddprun/exception.h>
#include <ddprun/trainer/registry.h>

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::models {
namespace {

/// The parameters, buffers and submodules of a script module as a module of C++. Both share their tensors, so
/// what moves, loads or updates these does it to the script module.
class Mirror : public torch::nn::Module {
 public:
  explicit Mirror(const torch::jit::Module& script) { mirror(*this, script); }

  static void mirror(torch::nn::Module& module, const torch::jit::Module& script) {
    for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
      const at::Tensor tensor = parameter.value;
      module.register_parameter(parameter.name, tensor, tensor.requires_grad());
    }
    for (const auto& buffer : script.named_buffers(/*recurse=*/false))
      module.register_buffer(buffer.name, buffer.value);
    for (const auto& child : script.named_children())
      module.register_module(child.name, std::make_shared<Mirror>(child.value));
  }
};

using Attribute = std::pair<const c10::ClassType*, std::string>;

void find_assignments(const torch::jit::Block& block, std::set<Attribute>& found) {
  for (const torch::jit::Node* node : block.nodes()) {
    if (node->kind() == torch::jit::prim::SetAttr) {
      if (const auto owner = node->input(0)->type()->cast<c10::ClassType>())
        found.emplace(owner.get(), node->s(torch::jit::attr::name));
    }
    for (const torch::jit::Block* inner : node->blocks()) find_assignments(*inner, found);
  }
}

/// A buffer in whose place the script puts another tensor (self.mean = …), where all others know the one of the mirror.
struct AssignedBuffer {
  torch::jit::ObjectPtr module;
  std::size_t slot = 0;
  at::Tensor tensor;  ///< the mirror's
  bool is_cache = false;

  /// The script works on a copy: a backward may want what was there, and the mirror's changes.
  void lend() const {
    if (!is_cache) module->setSlot(slot, tensor.detach().clone());
  }

  /// A tensor of another shape or kind is a cache: it stays, and each process makes its own.
  void take_back() {
    const torch::NoGradGuard no_grad;
    const at::Tensor now = module->getSlot(slot).toTensor();
    is_cache = now.sizes() != tensor.sizes() || !at::can_cast(now.scalar_type(), tensor.scalar_type());
    if (is_cache) return;
    tensor.copy_(now);
    module->setSlot(slot, tensor);
  }
};

/// Each gets memory of its own, which a file may give to several: from their first assignment on they have different
/// values.
std::vector<AssignedBuffer> assigned_buffers(const torch::jit::Module& script) {
  std::set<Attribute> assigned;
  for (const torch::jit::Module& module : script.modules()) {
    for (const torch::jit::Method& method : module.get_methods())
      find_assignments(*method.graph()->block(), assigned);
  }
  std::vector<AssignedBuffer> buffers;
  for (const torch::jit::Module& module : script.modules()) {
    const c10::ClassTypePtr type = module.type();
    for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
      if (!assigned.contains({type.get(), buffer.name})) continue;
      AssignedBuffer& one = buffers.emplace_back();
      one.module = module._ivalue();
      one.slot = type->getAttributeSlot(buffer.name);
      one.tensor = buffer.value.detach().clone(at::MemoryFormat::Contiguous);
      one.module->setSlot(one.slot, one.tensor);
    }
  }
  return buffers;
}

class TorchScript final : public Model {
 public:
  explicit TorchScript(torch::jit::Module script)
      : script_(std::move(script)), assigned_(assigned_buffers(script_)) {
    Mirror::mirror(*this, script_);
  }

  at::Tensor forward(at::Tensor input) override {
    // The optimizer of graphs looks at the first runs of a process and rounds otherwise in the later ones: a job that
    // goes on after an interruption would end with other bits.
    const torch::jit::GraphOptimizerEnabledGuard as_it_is_written(false);
    for (const AssignedBuffer& buffer : assigned_) buffer.lend();
    const c10::IValue output = script_.forward({std::move(input)});
    for (AssignedBuffer& buffer : assigned_) {
      if (!buffer.is_cache) buffer.take_back();
    }
    if (output.isTensor()) return output.toTensor();
    throw Exception(ErrorCode::kConfig,
                    fmt::format("/model/torchscript: its forward gives a {}, and a job needs "
                                "one tensor; wrap it in a module that picks that",
                                output.tagKind()));
  }

  void train(bool on = true) override {
    Model::train(on);
    script_.train(on);
  }

 private:
  torch::jit::Module script_;
  std::vector<AssignedBuffer> assigned_;
};

/// What follows is advice for another case.
std::string first_sentence(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, std::min(text.find('\n'), text.find(". ")));
}

torch::jit::Module load(const std::string& path) {
  const auto refuse = [&](const std::string& why) -> Exception {
    return {ErrorCode::kConfig, fmt::format("/model/torchscript: {} {}", path, why)};
  };
  if (!std::filesystem::exists(path)) throw refuse("is not there");
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const c10::Error& error) {
    throw refuse(fmt::format(
        "cannot be read as TorchScript: {}; save it by torch.jit.save(torch.jit.script(model), …), "
        "and not by torch.save",
        first_sentence(error)));
  }
}

}  // namespace

/// torchscript: what torch.jit.script or torch.jit.trace of Python saved, with its weights, names and code.
/// "torchscript" is the file.
///
/// Errors of its factory  Exception kConfig: no such file, or none of TorchScript's; a module whose parameters and
///                        buffers are none
void register_torchscript(ModelRegistry& models) {
  models.add("torchscript", "what torch.jit.script or trace of Python saved",
             [](const Options& options, const DataShape&) -> std::shared_ptr<Model> {
               const std::string path = options.text("torchscript");
               auto model = std::make_shared<TorchScript>(load(path));
               if (!model->parameters().empty()) return model;
               throw Exception(ErrorCode::kConfig,
                               fmt::format("/model/torchscript: {} has no parameters, so nothing to train; "
                                           "torch.jit.freeze makes constants of them",
                                           path));
             });
}

}  // namespace ddprun::models
