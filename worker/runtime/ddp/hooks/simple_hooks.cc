#include "worker/runtime/ddp/hooks/average_future.h"
#include <ddprun/collectives.h>
#include <ddprun/comm_hooks.h>

#include <torch/types.h>

namespace ddprun {
namespace runtime {

using c10::ivalue::Future;

c10::intrusive_ptr<Future> average_async(const Group& group, at::Tensor tensor) {
  std::vector<at::Tensor> tensors = {tensor.div_(group.size())};
  return group.process_group()->allreduce(tensors)->getFuture()->then(
      [](Future& reduced) { return c10::IValue(reduced.value().toTensorVector().front()); },
      c10::TensorType::get());
}

c10::intrusive_ptr<Future> completed(const at::Tensor& tensor) {
  auto future = c10::make_intrusive<Future>(
      c10::TensorType::get(),
      tensor.is_cuda() ? std::vector<c10::Device>{tensor.device()} : std::vector<c10::Device>{});
  future->markCompleted(tensor);
  return future;
}

}  // namespace runtime

namespace {

CommHook compress_hook(const Group& group, at::ScalarType dtype) {
  return [group, dtype](c10d::GradBucket& bucket) {
    const at::Tensor buffer = bucket.getBuffer();
    return runtime::average_async(group, buffer.to(dtype))
        ->then(
            [buffer](runtime::Future& reduced) {
              return c10::IValue(buffer.copy_(reduced.value().toTensor()));
            },
            c10::TensorType::get());
  };
}

CommHook compress_wrapper(CommHook hook, at::ScalarType dtype) {
  return [hook = std::move(hook), dtype](c10d::GradBucket& bucket) {
    at::Tensor compressed = bucket.getBuffer().to(dtype);
    bucket.setBuffer(compressed);
    return hook(bucket)->then(
        [compressed](runtime::Future& reduced) {
          return c10::IValue(compressed.copy_(reduced.value().toTensor()));
        },
        c10::TensorType::get());
  };
}

}  // namespace

CommHook allreduce_hook(const Group& group) {
  return [group](c10d::GradBucket& bucket) { return runtime::average_async(group, bucket.getBuffer()); };
}

CommHook noop_hook() {
  return [](c10d::GradBucket& bucket) { return runtime::completed(bucket.getBuffer()); };
}

CommHook fp16_compress_hook(const Group& group) { return compress_hook(group, at::kHalf); }

CommHook bf16_compress_hook(const Group& group) { return compress_hook(group, at::kBFloat16); }

CommHook fp16_compress_wrapper(CommHook hook) { return compress_wrapper(std::move(hook), at::kHalf); }

CommHook bf16_compress_wrapper(CommHook hook) { return compress_wrapper(std::move(hook), at::kBFloat16); }

struct PostLocalSgdState::Data {
  Group group;
  Group subgroup;
  PostLocalSgdOptions options;
  std::int64_t step = 0;
};

PostLocalSgdState::PostLocalSgdState(Group group, Group subgroup, const PostLocalSgdOptions& options)
    : data_(std::make_shared<Data>(
          Data{.group = std::move(group), .subgroup = std::move(subgroup), .options = options})) {}

std::int64_t PostLocalSgdState::step() const { return data_->step; }

void PostLocalSgdState::set_step(std::int64_t step) { data_->step = step; }

void PostLocalSgdState::set_groups(const Group& group, const Group& subgroup) {
  data_->group = group;
  data_->subgroup = subgroup;
}

CommHook post_local_sgd_hook(PostLocalSgdState state) {
  return [state = std::move(state)](c10d::GradBucket& bucket) {
    PostLocalSgdState::Data& data = state.data();
    const bool is_global = data.step < data.options.start_step;
    if (is_global && bucket.isLast()) ++data.step;
    if (is_global) return runtime::average_async(data.group, bucket.getBuffer());
    if (!data.options.reduce_over_subgroup) return runtime::completed(bucket.getBuffer());
    return runtime::average_async(data.subgroup, bucket.getBuffer());
  };
}

}  // namespace ddprun
