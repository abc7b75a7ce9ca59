// Collectives on one tensor for all ranks, on many tensors at once, and batches of messages.
#include "worker/runtime/comm/reduce_op.h"
#include "worker/runtime/libtorch/single_collectives.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <torch/types.h>

#include <exception>
#include <optional>

namespace ddprun {
namespace {

using runtime::scaled;
using runtime::to_c10d;
using Tensors = std::vector<at::Tensor>;

[[noreturn]] void refuse_call(std::string_view what, const std::string& why) {
  throw Exception(ErrorCode::kConfig, fmt::format("{}: {}", what, why));
}

/// The elements in a row, without a copy: what every backend takes, whatever the caller's shape.
at::Tensor flat(std::string_view what, const at::Tensor& tensor) {
  if (tensor.layout() == at::kStrided && tensor.is_contiguous()) return tensor.detach().view({-1});
  refuse_call(what, "a tensor is not dense and contiguous; pass tensor.contiguous()");
}

void check_whole(std::string_view what, const Group& group, const at::Tensor& whole, const at::Tensor& part) {
  if (whole.scalar_type() == part.scalar_type() && whole.numel() == part.numel() * group.size()) return;
  refuse_call(what, fmt::format("a tensor of {} {} cannot be the {} parts of {} {} of the {} ranks",
                                whole.numel(), c10::toString(whole.scalar_type()), group.size(), part.numel(),
                                c10::toString(part.scalar_type()), group.size()));
}

void check_list(std::string_view what, const Tensors& tensors) {
  if (tensors.empty()) refuse_call(what, "no tensor is given");
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() == tensors.front().scalar_type() && tensor.device() == tensors.front().device())
      continue;
    refuse_call(what,
                fmt::format("{} on {} and {} on {} in one call; call it once for each dtype and device",
                            c10::toString(tensors.front().scalar_type()), tensors.front().device().str(),
                            c10::toString(tensor.scalar_type()), tensor.device().str()));
  }
}

void check_lists(std::string_view what, const Group& group, const Tensors& wholes, const Tensors& parts) {
  check_list(what, wholes);
  if (wholes.size() != parts.size())
    refuse_call(what, fmt::format("got {} inputs and outputs: {} of one, {} of the other",
                                  wholes.size() + parts.size(), wholes.size(), parts.size()));
  for (std::size_t i = 0; i < wholes.size(); ++i) check_whole(what, group, wholes[i], parts[i]);
}

Tensors flat_each(std::string_view what, const Tensors& tensors) {
  Tensors flats;
  for (const at::Tensor& tensor : tensors) flats.push_back(flat(what, tensor));
  return flats;
}

/// One group call of a backend that has them: it is ended also when one of its messages is refused, or the backend
/// would take all that follows for a part of it.
class CoalescedCall {
 public:
  CoalescedCall(c10d::ProcessGroup& group, c10::DeviceType device) : group_(group), device_(device) {
    group_.startCoalescing(device_);
  }
  ~CoalescedCall() {
    if (is_ended_) return;
    try {
      group_.endCoalescing(device_);
    } catch (const std::exception&) {
      // What was refused is on its way to the caller.
    }
  }
  CoalescedCall(const CoalescedCall&) = delete;
  CoalescedCall& operator=(const CoalescedCall&) = delete;

  c10::intrusive_ptr<c10d::Work> end() {
    is_ended_ = true;
    return group_.endCoalescing(device_);
  }

 private:
  c10d::ProcessGroup& group_;
  c10::DeviceType device_;
  bool is_ended_ = false;
};

}  // namespace

Pending async_all_gather_into_tensor(const Group& group, at::Tensor output, const at::Tensor& input) {
  constexpr std::string_view kWhat = "all_gather_into_tensor";
  check_whole(kWhat, group, output, input);
  at::Tensor out = flat(kWhat, output);
  at::Tensor in = flat(kWhat, input);
  return Pending({runtime::all_gather_single(*group.process_group(), out, in)});
}

void all_gather_into_tensor(const Group& group, at::Tensor output, const at::Tensor& input) {
  async_all_gather_into_tensor(group, std::move(output), input).wait();
}

Pending async_reduce_scatter_tensor(const Group& group, at::Tensor output, const at::Tensor& input,
                                    ReduceOp op) {
  constexpr std::string_view kWhat = "reduce_scatter_tensor";
  check_whole(kWhat, group, input, output);
  at::Tensor out = flat(kWhat, output);
  at::Tensor in = scaled(group, flat(kWhat, input), op);
  c10d::ReduceScatterOptions options;
  options.reduceOp = to_c10d(group, output, op);
  return Pending({runtime::reduce_scatter_single(*group.process_group(), out, in, options)});
}

void reduce_scatter_tensor(const Group& group, at::Tensor output, const at::Tensor& input, ReduceOp op) {
  async_reduce_scatter_tensor(group, std::move(output), input, op).wait();
}

Pending async_all_reduce_coalesced(const Group& group, const Tensors& tensors, ReduceOp op) {
  check_list("all_reduce_coalesced", tensors);
  Tensors all = tensors;
  c10d::AllreduceCoalescedOptions options;
  options.reduceOp = to_c10d(group, all.front(), op);
  for (at::Tensor& tensor : all) runtime::scale_in_place(group, tensor, op);
  return Pending({group.process_group()->allreduce_coalesced(all, options)});
}

void all_reduce_coalesced(const Group& group, const Tensors& tensors, ReduceOp op) {
  async_all_reduce_coalesced(group, tensors, op).wait();
}

Pending async_all_gather_into_tensor_coalesced(const Group& group, const Tensors& outputs,
                                               const Tensors& inputs) {
  constexpr std::string_view kWhat = "all_gather_into_tensor_coalesced";
  check_lists(kWhat, group, outputs, inputs);
  Tensors outs = flat_each(kWhat, outputs);
  Tensors ins = flat_each(kWhat, inputs);
  return Pending({runtime::all_gather_single_coalesced(*group.process_group(), outs, ins)});
}

void all_gather_into_tensor_coalesced(const Group& group, const Tensors& outputs, const Tensors& inputs) {
  async_all_gather_into_tensor_coalesced(group, outputs, inputs).wait();
}

Pending async_reduce_scatter_tensor_coalesced(const Group& group, const Tensors& outputs,
                                              const Tensors& inputs, ReduceOp op) {
  constexpr std::string_view kWhat = "reduce_scatter_tensor_coalesced";
  check_lists(kWhat, group, inputs, outputs);
  Tensors outs = flat_each(kWhat, outputs);
  Tensors ins;
  for (const at::Tensor& input : inputs) ins.push_back(scaled(group, flat(kWhat, input), op));
  c10d::ReduceScatterOptions options;
  options.reduceOp = to_c10d(group, outs.front(), op);
  return Pending({runtime::reduce_scatter_single_coalesced(*group.process_group(), outs, ins, options)});
}

void reduce_scatter_tensor_coalesced(const Group& group, const Tensors& outputs, const Tensors& inputs,
                                     ReduceOp op) {
  async_reduce_scatter_tensor_coalesced(group, outputs, inputs, op).wait();
}

Pending batch_isend_irecv(const Group& group, const std::vector<P2POp>& ops) {
  constexpr std::string_view kWhat = "batch_isend_irecv";
  if (ops.empty()) refuse_call(kWhat, "no message is given");
  const c10::DeviceType device = ops.front().tensor.device().type();
  Tensors tensors;
  for (const P2POp& op : ops) {
    runtime::check_rank(group, op.peer, kWhat);
    runtime::check_tag(op.tag, kWhat);
    if (op.peer == group.rank()) refuse_call(kWhat, fmt::format("rank {} sends to itself", op.peer));
    if (op.tensor.device().type() != device)
      refuse_call(kWhat, "the tensors are on CPU and GPU; make two batches");
    tensors.push_back(flat(kWhat, op.tensor));
  }
  const auto& process_group = group.process_group();
  std::optional<CoalescedCall> one_call;
  if (process_group->getBackend(device)->supportsCoalescing()) one_call.emplace(*process_group, device);
  std::vector<c10::intrusive_ptr<c10d::Work>> messages;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const P2POp& op = ops[i];
    Tensors message = {tensors[i]};
    messages.push_back(op.kind == P2POp::Kind::kSend ? process_group->send(message, op.peer, op.tag)
                                                     : process_group->recv(message, op.peer, op.tag));
  }
  if (one_call) messages = {one_call->end()};
  return Pending(std::move(messages));
}

}  // namespace ddprun
