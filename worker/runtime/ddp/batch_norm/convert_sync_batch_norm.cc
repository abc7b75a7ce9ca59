#include <ddprun/exception.h>
#include <ddprun/sync_batch_norm.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <map>
#include <set>

namespace ddprun {
namespace {

template <class Norm>
SyncBatchNorm convert(const Norm& norm, const Group& group) {
  SyncBatchNorm converted(std::make_shared<SyncBatchNormImpl>(
      norm.options,
      SyncBatchNormImpl::Tensors{norm.weight, norm.bias, norm.running_mean, norm.running_var,
                                 norm.num_batches_tracked},
      group));
  converted->train(norm.is_training());
  return converted;
}

// Null where the module is no batch norm.
SyncBatchNorm convert_if_batch_norm(const torch::nn::Module& module, const Group& group) {
  if (const auto* norm1 = module.as<torch::nn::BatchNorm1dImpl>()) return convert(*norm1, group);
  if (const auto* norm2 = module.as<torch::nn::BatchNorm2dImpl>()) return convert(*norm2, group);
  if (const auto* norm3 = module.as<torch::nn::BatchNorm3dImpl>()) return convert(*norm3, group);
  return nullptr;
}

// First looks at the whole model, then changes it: a refusal leaves everything as it was.
class Conversion {
 public:
  explicit Conversion(const Group& group) : group_(group) {}

  void plan(torch::nn::Module& module, const std::string& path) {
    if (!seen_.insert(&module).second) return;
    if (auto* synced = module.as<SyncBatchNormImpl>()) {
      steps_.emplace_back([this, synced] { synced->set_group(group_); });
      return;
    }
    if (convert_if_batch_norm(module, group_))
      out_of_reach_.push_back(path.empty() ? "the model itself" : path);
    auto* sequential = module.as<torch::nn::SequentialImpl>();
    std::size_t index = 0;
    for (const auto& child : module.named_children()) {
      const std::string child_path = path.empty() ? child.key() : path + "." + child.key();
      if (sequential == nullptr || !plan_exchange(*sequential, index, child.key())) {
        plan(*child.value(), child_path);
      }
      ++index;
    }
  }

  void carry_out() const {
    if (!out_of_reach_.empty()) {
      throw Exception(
          ErrorCode::kConfig,
          fmt::format("convert_sync_batchnorm: cannot exchange {}: C++ cannot reach a member of a module; "
                      "declare it as ddprun::SyncBatchNorm, or put it into a Sequential",
                      fmt::join(out_of_reach_, ", ")));
    }
    for (const auto& step : steps_) step();
  }

 private:
  // False where the entry is no batch norm. One that stands in several places becomes one again.
  bool plan_exchange(torch::nn::SequentialImpl& sequential, std::size_t index, const std::string& name) {
    const std::shared_ptr<torch::nn::Module> old = sequential.ptr(index);
    auto known = converted_.find(old.get());
    if (known == converted_.end()) {
      const SyncBatchNorm fresh = convert_if_batch_norm(*old, group_);
      if (!fresh) return false;
      known = converted_.emplace(old.get(), fresh).first;
    }
    steps_.emplace_back([&sequential, index, name, norm = known->second] {
      *(sequential.begin() + static_cast<std::ptrdiff_t>(index)) = torch::nn::AnyModule(norm);
      sequential.replace_module(name, norm);
    });
    return true;
  }

  const Group& group_;
  std::set<const torch::nn::Module*> seen_;
  std::map<const torch::nn::Module*, SyncBatchNorm> converted_;
  std::vector<std::string> out_of_reach_;
  std::vector<std::function<void()>> steps_;
};

}  // namespace

SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm1d& norm, const Group& group) {
  return convert(*norm, group);
}
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm2d& norm, const Group& group) {
  return convert(*norm, group);
}
SyncBatchNorm convert_sync_batchnorm(const torch::nn::BatchNorm3d& norm, const Group& group) {
  return convert(*norm, group);
}

void convert_sync_batchnorm(torch::nn::Module& model, const Group& group) {
  Conversion conversion(group);
  conversion.plan(model, "");
  conversion.carry_out();
}

}  // namespace ddprun
