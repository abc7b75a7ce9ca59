#include <ddprun/averaged_model.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <tuple>

namespace ddprun {
namespace {

struct Tensors {
  std::vector<at::Tensor> averaged, copied;
};

Tensors tensors_of(const torch::nn::Module& module, bool averages_buffers) {
  const ModuleView view = view_of(module);
  Tensors tensors;
  for (const auto& parameter : view.parameters) tensors.averaged.push_back(parameter.tensor.detach());
  for (const auto& [name, buffer] : view.buffers()) {
    (averages_buffers ? tensors.averaged : tensors.copied).push_back(buffer.detach());
  }
  return tensors;
}

void check_same(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                const char* what) {
  bool is_same = averages.size() == values.size();
  for (std::size_t i = 0; is_same && i < values.size(); ++i)
    is_same = averages[i].sizes() == values[i].sizes();
  if (is_same) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("AveragedModel: the model has {} {}, the average {}, or they differ in shape; make the "
                  "average of the same class and options",
                  values.size(), what, averages.size()));
}

void copy_all(const std::vector<at::Tensor>& into, const std::vector<at::Tensor>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(from[i]);
}

bool can_lerp(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

void average_ema(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                 double decay) {
  if (can_lerp(averages.front())) return at::_foreach_lerp_(averages, values, 1 - decay);
  for (std::size_t i = 0; i < averages.size(); ++i) {
    averages[i].copy_(averages[i] * decay + values[i] * (1 - decay));
  }
}

void average_equal(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                   std::int64_t count) {
  for (std::size_t i = 0; i < averages.size(); ++i) {
    const at::Tensor divisor = at::scalar_tensor(count + 1, averages[i].options().dtype(at::kLong));
    averages[i].copy_(averages[i] + (values[i] - averages[i]) / divisor);
  }
}

}  // namespace

AveragedModel::AveragedModel(std::shared_ptr<torch::nn::Module> average, const AveragedModelOptions& options)
    : module_(std::move(average)), options_(options) {
  if (options.decay && !(*options.decay >= 0 && *options.decay <= 1)) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("AveragedModel: the decay is {}; it has to be in [0, 1]", *options.decay));
  }
}

void AveragedModel::update_parameters(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  const Tensors averages = tensors_of(*module_, options_.use_buffers);
  const Tensors values = tensors_of(model, options_.use_buffers);
  check_same(averages.averaged, values.averaged, "averaged tensors");
  check_same(averages.copied, values.copied, "buffers");
  copy_all(averages.copied, values.copied);
  if (n_averaged_++ == 0) return copy_all(averages.averaged, values.averaged);

  using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType>;
  std::map<Key, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> lists;
  for (std::size_t i = 0; i < averages.averaged.size(); ++i) {
    const at::Tensor& average = averages.averaged[i];
    auto& list = lists[{average.device().type(), average.device().index(), average.scalar_type()}];
    list.first.push_back(average);
    list.second.push_back(values.averaged[i].to(average.device()));
  }
  for (const auto& [key, list] : lists) {
    if (options_.decay) {
      average_ema(list.first, list.second, *options_.decay);
    } else {
      average_equal(list.first, list.second, n_averaged_ - 1);
    }
  }
}

}  // namespace ddprun
