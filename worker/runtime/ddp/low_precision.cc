#include "worker/runtime/ddp/low_precision.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

namespace ddprun::runtime {
namespace {

using c10::ivalue::Future;

[[noreturn]] void refuse_mixed(const std::string& why) {
  throw Exception(ErrorCode::kConfig, "DistributedDataParallel: mixed_precision: " + why);
}

void check_dtype(std::string_view name, const std::optional<at::ScalarType>& dtype) {
  if (!dtype || at::isFloatingType(*dtype)) return;
  refuse_mixed(fmt::format("{} is {}; expected a floating-point dtype", name, c10::toString(*dtype)));
}

// The gradient's tensor stays the same for those who hold it.
void cast_gradient(const at::Tensor& parameter, at::ScalarType dtype) {
  const at::Tensor& gradient = parameter.grad();
  if (gradient.defined() && gradient.scalar_type() != dtype) gradient.set_data(gradient.to(dtype));
}

}  // namespace

void check_mixed_precision(const ModuleView& view, const DistributedDataParallelOptions& options) {
  const MixedPrecision& dtypes = *options.mixed_precision;
  check_dtype("param_dtype", dtypes.param_dtype);
  check_dtype("reduce_dtype", dtypes.reduce_dtype);
  check_dtype("buffer_dtype", dtypes.buffer_dtype);
  if (!options.delay_all_reduce.empty())
    refuse_mixed("delayed reductions are made in the parameters' dtype; leave out option delay_all_reduce");
  if (dtypes.param_dtype && options.find_unused_parameters) {
    refuse_mixed(
        "the search for unused parameters does not know them by the dtype that forward uses them in; leave "
        "out option find_unused_parameters");
  }
  if (dtypes.param_dtype && options.gradient_as_bucket_view) {
    refuse_mixed(
        "buckets are of param_dtype, and gradients of the parameters' dtype are no views of them; leave out "
        "option gradient_as_bucket_view");
  }
  const auto is_ignored = [&](const std::string& name) {
    return std::find(options.ignored.begin(), options.ignored.end(), name) != options.ignored.end();
  };
  for (const auto& parameter : view.parameters) {
    if (!parameter.tensor.defined() || is_ignored(parameter.name)) continue;
    if (parameter.has_sparse_gradient)
      refuse_mixed(fmt::format("parameter \"{}\" has sparse gradients", parameter.name));
    if (!dtypes.param_dtype || at::isFloatingType(parameter.tensor.scalar_type())) continue;
    refuse_mixed(fmt::format("parameter \"{}\" is of {}, not floating-point; name it in option ignored",
                             parameter.name, c10::toString(parameter.tensor.scalar_type())));
  }
  if (!dtypes.buffer_dtype || !view.buffers) return;
  for (const auto& [name, buffer] : view.buffers()) {
    if (buffer.is_complex() && !is_ignored(name))
      refuse_mixed(fmt::format("buffer \"{}\" is complex; name it in option ignored", name));
  }
}

void cast_buffers(const std::vector<NamedTensor>& buffers, at::ScalarType dtype) {
  for (const auto& [name, buffer] : buffers) buffer.set_data(buffer.to(dtype));
}

LowPrecision::LowPrecision(const MixedPrecision& dtypes, const std::vector<ModuleView::Parameter>& reduced,
                           const std::vector<ModuleView::Parameter>& frozen)
    : dtypes_(dtypes) {
  const auto is_cast = [&](const at::Tensor& tensor) {
    return dtypes.param_dtype && tensor.scalar_type() != *dtypes.param_dtype;
  };
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (is_cast(reduced[i].tensor)) casts_.push_back({.parameter = reduced[i].tensor, .index = i});
  }
  for (const auto& parameter : frozen) {
    if (is_cast(parameter.tensor)) casts_.push_back({.parameter = parameter.tensor, .index = {}});
  }
  for (Cast& cast : casts_) cast_of_[cast.parameter.unsafeGetTensorImpl()] = &cast;
}

void LowPrecision::lower(Cast& cast) {
  unhook(cast);  // of a backward that failed
  cast.full = cast.parameter.variable_data();
  cast.parameter.set_data(cast.full.to(*dtypes_.param_dtype));
  cast.has_new_data = true;
}

void LowPrecision::restore(Cast& cast) {
  if (!cast.full.defined()) return;
  cast.parameter.set_data(cast.full);
  cast.full.reset();
  cast.has_new_data = true;
}

void LowPrecision::lower() {
  for (Cast& cast : casts_) {
    if (!cast.full.defined()) lower(cast);
  }
}

void LowPrecision::connect(c10d::Reducer& reducer, BypassWatch* watch) {
  reducer_ = &reducer;
  watch_ = watch;
  if (dtypes_.param_dtype) reducer.set_mixed_precision_param_dtype(*dtypes_.param_dtype);
}

void LowPrecision::end() {
  for (Cast& cast : casts_) {
    unhook(cast);
    restore(cast);
  }
  awaits_backward_ = awaited_backward_before_ = has_queued_end_ = false;
  let_watch_follow();
}

at::Tensor LowPrecision::in_own_dtype(const at::Tensor& parameter) const {
  const auto cast = cast_of_.find(parameter.unsafeGetTensorImpl());
  return cast != cast_of_.end() && cast->second->full.defined() ? cast->second->full : parameter;
}

at::Tensor LowPrecision::cast_input(const at::Tensor& tensor) const {
  const bool stays = !dtypes_.param_dtype || !tensor.defined() || !tensor.is_floating_point();
  return stays ? tensor : tensor.to(*dtypes_.param_dtype);
}

void LowPrecision::before_forward() {
  awaited_backward_before_ = awaits_backward_;
  lower();
  if (!at::GradMode::is_enabled()) return;
  awaits_backward_ = true;
  has_queued_end_ = false;
  let_watch_follow();
  const at::NoGradGuard no_grad;
  for (Cast& cast : casts_) {
    if (cast.index && !cast.accumulator) notify_reducer(cast);
  }
}

void LowPrecision::after_forward() {
  const at::NoGradGuard no_grad;
  for (Cast& cast : casts_) {
    if (awaits_backward_ && cast.index) cast_gradient(cast.parameter, *dtypes_.param_dtype);
  }
  settle();
}

void LowPrecision::settle() {
  awaited_backward_before_ = awaits_backward_;
  if (!awaits_backward_) end();
}

void LowPrecision::abandon_forward() {
  awaits_backward_ = awaited_backward_before_;
  settle();
}

void LowPrecision::notify_reducer(Cast& cast) {
  cast.accumulator = torch::autograd::impl::grad_accumulator(cast.parameter);
  if (!cast.accumulator) return;
  using torch::autograd::variable_list;
  cast.hook = cast.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [reducer = reducer_, index = *cast.index](const variable_list& outputs, const variable_list&) {
        reducer->autograd_hook(index);
        return outputs;
      }));
}

void LowPrecision::let_watch_follow() {
  if (watch_ == nullptr) return;
  for (Cast& cast : casts_) {
    if (cast.index && std::exchange(cast.has_new_data, false)) watch_->follow(cast.parameter);
  }
}

void LowPrecision::unhook(Cast& cast) {
  if (!cast.accumulator) return;
  cast.accumulator->del_post_hook(cast.hook);
  cast.accumulator.reset();
}

void LowPrecision::restore(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    const auto cast = cast_of_.find(parameter.unsafeGetTensorImpl());
    if (cast == cast_of_.end()) continue;
    restore(*cast->second);
    cast_gradient(parameter, parameter.scalar_type());
  }
}

c10::intrusive_ptr<Future> LowPrecision::reduce(c10d::GradBucket& bucket, int world_size) {
  const at::NoGradGuard no_grad;
  if (dtypes_.reduce_dtype) {
    at::Tensor buffer = bucket.getBuffer().to(*dtypes_.reduce_dtype);
    bucket.setBuffer(buffer);
  }
  const auto sum = reducer_->run_allreduce_hook(bucket);
  if (awaits_backward_) {  // and not a rank without input, which shadows the others' backward
    restore(bucket.getParameters());
    // This hook is called by one of those that end() takes away.
    if (!std::exchange(has_queued_end_, true))
      torch::autograd::Engine::get_default_engine().queue_callback([this] { end(); });
  }
  return sum->then(
      [world_size](Future& reduced) {
        return c10::IValue(reduced.value().toTensorVector().front().div_(world_size));
      },
      c10::TensorType::get());
}

}  // namespace ddprun::runtime
