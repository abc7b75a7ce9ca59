#include "worker/runtime/shm/shm_backend.h"

#include "worker/runtime/shm/all_reduce.h"
#include "worker/runtime/shm/arena_allocator.h"
#include "worker/runtime/shm/broadcast.h"
#include "worker/runtime/shm/gather.h"
#include "worker/runtime/shm/shm_work.h"
#include "worker/runtime/shm/tensors.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

namespace ddprun::runtime::shm {
namespace {

class Barrier1 final : public Collective {
 public:
  [[nodiscard]] Description describe() const override { return {}; }
  void contribute(Group&, Post&) override {}
  Result<void> complete(Group&) override { return ok(); }
};

const Kernels* kernels_for(const Description& what) {
  const Kernels* const kernels = find_kernels(what.dtype, what.op);
  if (kernels == nullptr) {
    throw Exception(ErrorCode::kUsage, fmt::format("shm {}: not defined for this dtype", what.to_text()));
  }
  return kernels;
}

}  // namespace

ShmBackend::ShmBackend(std::shared_ptr<Segment> segment, std::unique_ptr<Group> group,
                       std::chrono::milliseconds timeout)
    : Backend(group->rank(), group->size()),
      arena_(std::make_shared<Arena>(std::move(segment), group->rank())),
      engine_(std::move(group)),
      timeout_(timeout) {}

c10::intrusive_ptr<c10d::Backend::Options> ShmBackend::getBackendOptions() {
  return c10::make_intrusive<Options>("shm", timeout_.load());
}

at::Tensor ShmBackend::allocateTensor(long size, at::TensorOptions options) {
  const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
  c10::DataPtr piece = allocate_in(arena_, bytes);
  if (!piece) {
    throw Exception(ErrorCode::kOs,
                    fmt::format("shm: no room for a tensor of {} bytes in the shared segment ({} bytes "
                                "are in use)",
                                bytes, arena_->used()));
  }
  auto keep = std::make_shared<c10::DataPtr>(std::move(piece));
  return at::from_blob(
      keep->get(), {size}, [keep](void*) {}, options);
}

c10::intrusive_ptr<c10d::Work> ShmBackend::run(const Call& call, std::unique_ptr<Collective> collective,
                                               std::vector<at::Tensor> tensors) {
  const auto timeout = call.timeout == c10d::kUnsetTimeout ? timeout_.load() : call.timeout;
  auto work = c10::make_intrusive<ShmWork>(rank_, call.type, ++sequence_, std::move(tensors));
  const auto patience = call.is_async ? Patience::kShort : Patience::kBlocking;
  const auto outcome = engine_.submit(std::move(collective), timeout, patience, [&work]() -> Engine::Done {
    return [work](const Result<void>& result) { work->complete(result); };
  });
  if (outcome) work->complete(*outcome);
  return work;
}

c10::intrusive_ptr<c10d::Work> ShmBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(Kind::kAllReduce, tensors);
  const Bytes bytes = bytes_of(Kind::kAllReduce, tensor);
  Description what = describe(Kind::kAllReduce, tensor);
  what.op = to_reduce_op(options.reduceOp);
  return run({c10d::OpType::ALLREDUCE, options.timeout, options.asyncOp},
             std::make_unique<AllReduce>(AllReduce::Arguments{
                 .in = bytes.data, .out = bytes.data, .what = what, .kernels = kernels_for(what)}),
             tensors);
}

c10::intrusive_ptr<c10d::Work> ShmBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(Kind::kBroadcast, tensors);
  const Bytes bytes = bytes_of(Kind::kBroadcast, tensor);
  Description what = describe(Kind::kBroadcast, tensor);
  what.root = static_cast<int>(options.rootRank);
  return run({c10d::OpType::BROADCAST, options.timeout, options.asyncOp},
             std::make_unique<Broadcast>(bytes.data, bytes.size, what), tensors);
}

c10::intrusive_ptr<c10d::Work> ShmBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(Kind::kAllGather, inputs);
  if (outputs.size() != 1 || outputs[0].size() != static_cast<std::size_t>(size_)) {
    throw Exception(ErrorCode::kUsage,
                    fmt::format("shm all-gather: pass one list of {} outputs, one per rank", size_));
  }
  const Bytes in = bytes_of(Kind::kAllGather, input);
  std::vector<std::byte*> outs;
  for (const at::Tensor& output : outputs[0]) {
    check_alike(Kind::kAllGather, output, input);
    outs.push_back(bytes_of(Kind::kAllGather, output).data);
  }
  return run({c10d::OpType::ALLGATHER, options.timeout, options.asyncOp},
             std::make_unique<Gather>(in.data, in.size, std::move(outs), describe(Kind::kAllGather, input)),
             outputs[0]);
}

c10::intrusive_ptr<c10d::Work> ShmBackend::barrier(const c10d::BarrierOptions& options) {
  return run({c10d::OpType::BARRIER, options.timeout, options.asyncOp}, std::make_unique<Barrier1>(), {});
}

}  // namespace ddprun::runtime::shm
