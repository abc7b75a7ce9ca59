#include <ddprun/module_view.h>
#include <ddprun/sync_batch_norm.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

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

template <class Predicate>
bool any_sync_batch_norm(const torch::nn::Module& module, const Predicate& predicate) {
  const auto* norm = module.as<SyncBatchNormImpl>();
  if (norm != nullptr && predicate(*norm)) return true;
  const auto children = module.children();
  return std::any_of(children.begin(), children.end(),
                     [&](const auto& child) { return any_sync_batch_norm(*child, predicate); });
}

}  // namespace

ModuleView view_of(const torch::nn::Module& module) {
  ModuleView view;
  view.name = module.name();
  view.has_sync_batch_norm = any_sync_batch_norm(module, [](const auto&) { return true; });
  if (view.has_sync_batch_norm) {
    view.trains_sync_batch_norm = [&module] {
      return any_sync_batch_norm(module, [](const auto& norm) { return norm.synchronises(); });
    };
  }
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
