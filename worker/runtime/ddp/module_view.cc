#include <ddprun/module_view.h>
#include <ddprun/sync_batch_norm.h>

#include <torch/torch.h>

#include <algorithm>
#include <unordered_set>

namespace ddprun {
namespace {

using Seen = std::unordered_set<const c10::TensorImpl*>;

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

bool makes_sparse_gradients(const torch::nn::Module& module) {
  if (const auto* embedding = module.as<torch::nn::EmbeddingImpl>()) return embedding->options.sparse();
  if (const auto* bag = module.as<torch::nn::EmbeddingBagImpl>()) return bag->options.sparse();
  return false;
}

// Our own walk and not named_parameters(): that one lists a tied tensor under each of its names.
void collect_parameters(const torch::nn::Module& module, const std::string& prefix, Seen& seen,
                        std::vector<ModuleView::Parameter>& parameters) {
  const bool sparse = makes_sparse_gradients(module);
  for (const auto& own : module.named_parameters(/*recurse=*/false)) {
    if (!seen.insert(own.value().unsafeGetTensorImpl()).second) continue;
    parameters.push_back(
        {.name = join(prefix, own.key()), .tensor = own.value(), .has_sparse_gradient = sparse});
  }
  for (const auto& child : module.named_children()) {
    collect_parameters(*child.value(), join(prefix, child.key()), seen, parameters);
  }
}

void collect_buffers(const torch::nn::Module& module, const std::string& prefix, Seen& seen,
                     std::vector<NamedTensor>& buffers) {
  for (const auto& own : module.named_buffers(/*recurse=*/false)) {
    if (seen.insert(own.value().unsafeGetTensorImpl()).second)
      buffers.emplace_back(join(prefix, own.key()), own.value());
  }
  for (const auto& child : module.named_children()) {
    collect_buffers(*child.value(), join(prefix, child.key()), seen, buffers);
  }
}

bool has_sync_batch_norm(const torch::nn::Module& module, bool in_training) {
  if (module.as<SyncBatchNormImpl>() != nullptr && (!in_training || module.is_training())) return true;
  const auto children = module.children();
  return std::any_of(children.begin(), children.end(),
                     [&](const auto& child) { return has_sync_batch_norm(*child, in_training); });
}

}  // namespace

ModuleView view_of(const torch::nn::Module& module) {
  ModuleView view;
  view.name = module.name();
  view.has_sync_batch_norm = has_sync_batch_norm(module, /*in_training=*/false);
  view.trains_sync_batch_norm = [&module] { return has_sync_batch_norm(module, /*in_training=*/true); };
  Seen seen;
  collect_parameters(module, "", seen, view.parameters);
  view.buffers = [&module] {
    Seen seen_buffers;
    std::vector<NamedTensor> buffers;
    collect_buffers(module, "", seen_buffers, buffers);
    return buffers;
  };
  return view;
}

}  // namespace ddprun
