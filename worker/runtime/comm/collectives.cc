#include "worker/runtime/comm/reduce_op.h"
#include "worker/runtime/libtorch/single_collectives.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

namespace ddprun {
namespace {

using runtime::check_rank;
using runtime::scale_in_place;
using runtime::scaled;
using runtime::to_c10d;

void check_count(const Group& group, std::size_t count, std::string_view what) {
  if (count == static_cast<std::size_t>(group.size())) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: {} tensors given, the group has {} ranks; give one per rank", what, count,
                              group.size()));
}

std::vector<at::Tensor> empty_like_each(const Group& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors;
  for (int rank = 0; rank < group.size(); ++rank) tensors.push_back(torch::empty_like(tensor));
  return tensors;
}

void check_rows(const Group& group, const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                std::string_view which) {
  const auto refuse = [&](const std::string& why) {
    throw Exception(ErrorCode::kConfig, fmt::format("all_to_all_single: {} {}", which, why));
  };
  if (tensor.dim() == 0) refuse("has no dimensions; rows are along the first one");
  const std::int64_t rows = tensor.size(0);
  if (splits.empty()) {
    if (rows % group.size() != 0) {
      refuse(
          fmt::format("has {} rows, which {} ranks cannot share equally; give splits", rows, group.size()));
    }
    return;
  }
  if (splits.size() != static_cast<std::size_t>(group.size())) {
    refuse(
        fmt::format("has {} splits, the group has {} ranks; give one per rank", splits.size(), group.size()));
  }
  const std::int64_t sum = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  const std::int64_t least = *std::min_element(splits.begin(), splits.end());
  if (least < 0) refuse(fmt::format("has a split of {} rows; they are at least 0", least));
  if (sum != rows) refuse(fmt::format("has {} rows, and its splits have {}", rows, sum));
}

// Of all-to-all: what this rank can see of it. What goes to others is for them to take.
void check_pieces(const Group& group, const std::vector<at::Tensor>& into,
                  const std::vector<at::Tensor>& pieces) {
  const auto refuse = [](const std::string& why) {
    throw Exception(ErrorCode::kConfig, "all_to_all: " + why);
  };
  const at::ScalarType dtype = pieces.front().scalar_type();
  for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
    if (pieces[rank].scalar_type() != dtype) {
      refuse(fmt::format("piece 0 is {}, and piece {} is {}; give all tensors one dtype", at::toString(dtype),
                         rank, at::toString(pieces[rank].scalar_type())));
    }
    if (into[rank].scalar_type() != dtype) {
      refuse(fmt::format("piece 0 is {}, and the place for rank {}'s is {}; give all tensors one dtype",
                         at::toString(dtype), rank, at::toString(into[rank].scalar_type())));
    }
  }
  const auto self = static_cast<std::size_t>(group.rank());
  if (into[self].numel() == pieces[self].numel()) return;
  refuse(
      fmt::format("rank {} keeps a piece of {} elements for itself, and its place has {}; give both as many",
                  group.rank(), pieces[self].numel(), into[self].numel()));
}

Pending pending_of(c10::intrusive_ptr<c10d::Work> work) { return Pending({std::move(work)}); }

// gloo alone has no all-to-all of lists. Messages one by one would deadlock on nccl, where a send waits for
// its receive unless both are of one group call.
bool has_list_all_to_all(const Group& group, const at::Device& device) {
  return group.process_group()->getBackend(device.type())->getBackendName() != "gloo";
}

}  // namespace

void Pending::wait() {
  if (waited_) return;
  for (const auto& work : work_) work->wait();
  waited_ = true;
}

void Pending::wait(std::chrono::milliseconds timeout) {
  if (waited_) return;
  if (timeout.count() <= 0) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("wait: the time-out is {} ms; it has to be above 0", timeout.count()));
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (const auto& work : work_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      work->wait(std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      if (work->isCompleted()) throw;
      throw Exception(
          ErrorCode::kTimeout,
          fmt::format("wait: the collective is not done after {} ms; a rank has not called it, or is "
                      "still at it: wait again, or longer",
                      timeout.count()));
    }
  }
  waited_ = true;
}

c10::intrusive_ptr<c10::ivalue::Future> Pending::future() const {
  if (work_.size() == 1) return work_.front()->getFuture();
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("future: the backend makes this of {} parts, which have none in common; wait for it",
                  work_.size()));
}

int Pending::source_rank() const { return work_.front()->sourceRank(); }

bool Pending::is_done() const {
  return waited_ ||
         std::all_of(work_.begin(), work_.end(), [](const auto& work) { return work->isCompleted(); });
}

Pending async_all_reduce(const Group& group, at::Tensor tensor, ReduceOp op) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(group, tensor, op);
  scale_in_place(group, tensor, op);
  return pending_of(group.process_group()->allreduce(tensors, options));
}

void all_reduce(const Group& group, at::Tensor tensor, ReduceOp op) {
  async_all_reduce(group, std::move(tensor), op).wait();
}

Pending async_reduce(const Group& group, at::Tensor tensor, int to_rank, ReduceOp op) {
  check_rank(group, to_rank, "reduce");
  std::vector<at::Tensor> tensors = {tensor};
  c10d::ReduceOptions options;
  options.reduceOp = to_c10d(group, tensor, op);
  options.rootRank = to_rank;
  scale_in_place(group, tensor, op);
  return pending_of(group.process_group()->reduce(tensors, options));
}

void reduce(const Group& group, at::Tensor tensor, int to_rank, ReduceOp op) {
  async_reduce(group, std::move(tensor), to_rank, op).wait();
}

Pending async_broadcast(const Group& group, at::Tensor tensor, int from_rank) {
  check_rank(group, from_rank, "broadcast");
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  c10d::BroadcastOptions options;
  options.rootRank = from_rank;
  return pending_of(group.process_group()->broadcast(tensors, options));
}

void broadcast(const Group& group, at::Tensor tensor, int from_rank) {
  async_broadcast(group, std::move(tensor), from_rank).wait();
}

Pending async_all_gather(const Group& group, const at::Tensor& tensor, std::vector<at::Tensor> into) {
  check_count(group, into.size(), "all_gather");
  std::vector<std::vector<at::Tensor>> outputs = {std::move(into)};
  std::vector<at::Tensor> inputs = {tensor};
  return pending_of(group.process_group()->allgather(outputs, inputs));
}

std::vector<at::Tensor> all_gather(const Group& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> into = empty_like_each(group, tensor);
  async_all_gather(group, tensor, into).wait();
  return into;
}

std::vector<at::Tensor> all_gather_ragged(const Group& group, const at::Tensor& tensor) {
  // First the shapes, in vectors of one length: number of dimensions, then the sizes.
  constexpr std::int64_t kMaxDimensions = 15;
  if (tensor.dim() > kMaxDimensions) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("all_gather_ragged: the tensor has {} dimensions, at most {} can be "
                                "gathered; flatten it",
                                tensor.dim(), kMaxDimensions));
  }
  at::Tensor shape = torch::zeros({kMaxDimensions + 1}, torch::kInt64);
  shape[0] = tensor.dim();
  for (std::int64_t d = 0; d < tensor.dim(); ++d) shape[d + 1] = tensor.size(d);
  const std::vector<at::Tensor> shapes = all_gather(group, shape.to(collective_device(group)));

  std::vector<std::vector<std::int64_t>> sizes;
  std::int64_t longest = 0;
  for (const at::Tensor& remote : shapes) {
    const at::Tensor local = remote.cpu();
    const auto* numbers = local.const_data_ptr<std::int64_t>();
    sizes.emplace_back(numbers + 1, numbers + 1 + numbers[0]);
    std::int64_t count = 1;
    for (const std::int64_t size : sizes.back()) count *= size;
    longest = std::max(longest, count);
  }
  at::Tensor padded = torch::zeros({longest}, tensor.options().requires_grad(false));
  padded.narrow(0, 0, tensor.numel()).copy_(tensor.detach().reshape({-1}));
  std::vector<at::Tensor> gathered = all_gather(group, padded);
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes[rank]) count *= size;
    gathered[rank] = gathered[rank].narrow(0, 0, count).reshape(sizes[rank]).clone();
  }
  return gathered;
}

Pending async_gather(const Group& group, const at::Tensor& tensor, std::vector<at::Tensor> into,
                     int to_rank) {
  check_rank(group, to_rank, "gather");
  std::vector<std::vector<at::Tensor>> outputs;
  if (group.rank() == to_rank) {
    check_count(group, into.size(), "gather");
    outputs.push_back(std::move(into));
  }
  std::vector<at::Tensor> inputs = {tensor};
  c10d::GatherOptions options;
  options.rootRank = to_rank;
  return pending_of(group.process_group()->gather(outputs, inputs, options));
}

std::vector<at::Tensor> gather(const Group& group, const at::Tensor& tensor, int to_rank) {
  std::vector<at::Tensor> into;
  if (group.rank() == to_rank) into = empty_like_each(group, tensor);
  async_gather(group, tensor, into, to_rank).wait();
  return into;
}

Pending async_scatter(const Group& group, at::Tensor into, const std::vector<at::Tensor>& pieces,
                      int from_rank) {
  check_rank(group, from_rank, "scatter");
  std::vector<std::vector<at::Tensor>> inputs;
  if (group.rank() == from_rank) {
    check_count(group, pieces.size(), "scatter");
    inputs.push_back(pieces);
  }
  std::vector<at::Tensor> outputs = {std::move(into)};
  c10d::ScatterOptions options;
  options.rootRank = from_rank;
  return pending_of(group.process_group()->scatter(outputs, inputs, options));
}

void scatter(const Group& group, at::Tensor into, const std::vector<at::Tensor>& pieces, int from_rank) {
  async_scatter(group, std::move(into), pieces, from_rank).wait();
}

Pending async_reduce_scatter(const Group& group, at::Tensor into, const std::vector<at::Tensor>& pieces,
                             ReduceOp op) {
  check_count(group, pieces.size(), "reduce_scatter");
  std::vector<at::Tensor> outputs = {into};
  std::vector<std::vector<at::Tensor>> inputs(1);
  for (const at::Tensor& piece : pieces) inputs.front().push_back(scaled(group, piece, op));
  c10d::ReduceScatterOptions options;
  options.reduceOp = to_c10d(group, into, op);
  return pending_of(group.process_group()->reduce_scatter(outputs, inputs, options));
}

void reduce_scatter(const Group& group, at::Tensor into, const std::vector<at::Tensor>& pieces, ReduceOp op) {
  async_reduce_scatter(group, std::move(into), pieces, op).wait();
}

Pending async_all_to_all(const Group& group, std::vector<at::Tensor> into,
                         const std::vector<at::Tensor>& pieces) {
  check_count(group, into.size(), "all_to_all");
  check_count(group, pieces.size(), "all_to_all");
  check_pieces(group, into, pieces);
  if (has_list_all_to_all(group, pieces.front().device())) {
    std::vector<at::Tensor> inputs = pieces;
    return pending_of(group.process_group()->alltoall(into, inputs));
  }
  const at::NoGradGuard no_grad;
  const auto self = static_cast<std::size_t>(group.rank());
  into[self].detach().copy_(pieces[self].detach().reshape(into[self].sizes()));
  std::vector<c10::intrusive_ptr<c10d::Work>> messages;
  for (int distance = 1; distance < group.size(); ++distance) {
    const int to = (group.rank() + distance) % group.size();
    const int from = (group.rank() - distance + group.size()) % group.size();
    std::vector<at::Tensor> sent = {pieces[static_cast<std::size_t>(to)]};
    std::vector<at::Tensor> received = {into[static_cast<std::size_t>(from)]};
    messages.push_back(group.process_group()->send(sent, to, runtime::kAllToAllTag));
    messages.push_back(group.process_group()->recv(received, from, runtime::kAllToAllTag));
  }
  return Pending(std::move(messages));
}

void all_to_all(const Group& group, std::vector<at::Tensor> into, const std::vector<at::Tensor>& pieces) {
  async_all_to_all(group, std::move(into), pieces).wait();
}

Pending async_all_to_all_single(const Group& group, at::Tensor output, const at::Tensor& input,
                                const RowSplits& splits) {
  check_rows(group, output, splits.output, "output");
  check_rows(group, input, splits.input, "input");
  RowSplits rows = splits;  // which c10d takes by reference
  at::Tensor from = input;
  return pending_of(
      runtime::all_to_all_single(*group.process_group(), output, from, rows.output, rows.input));
}

void all_to_all_single(const Group& group, at::Tensor output, const at::Tensor& input,
                       const RowSplits& splits) {
  async_all_to_all_single(group, std::move(output), input, splits).wait();
}

Pending async_barrier(const Group& group) { return pending_of(group.process_group()->barrier()); }

void barrier(const Group& group) { async_barrier(group).wait(); }

Pending async_send(const Group& group, const at::Tensor& tensor, int to_rank, int tag) {
  check_rank(group, to_rank, "send");
  runtime::check_tag(tag, "send");
  std::vector<at::Tensor> tensors = {tensor};
  return pending_of(group.process_group()->send(tensors, to_rank, tag));
}

Pending async_receive(const Group& group, at::Tensor into, int from_rank, int tag) {
  check_rank(group, from_rank, "receive");
  runtime::check_tag(tag, "receive");
  std::vector<at::Tensor> tensors = {std::move(into)};
  return pending_of(group.process_group()->recv(tensors, from_rank, tag));
}

Pending async_receive_from_any(const Group& group, at::Tensor into, int tag) {
  runtime::check_tag(tag, "receive_from_any");
  std::vector<at::Tensor> tensors = {std::move(into)};
  return pending_of(group.process_group()->recvAnysource(tensors, tag));
}

int receive_from_any(const Group& group, at::Tensor into, int tag) {
  Pending pending = async_receive_from_any(group, std::move(into), tag);
  pending.wait();
  return pending.source_rank();
}

void send(const Group& group, const at::Tensor& tensor, int to_rank, int tag) {
  async_send(group, tensor, to_rank, tag).wait();
}

void receive(const Group& group, at::Tensor into, int from_rank, int tag) {
  async_receive(group, std::move(into), from_rank, tag).wait();
}

void average_parameters(const Group& group, const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::map<std::string, std::vector<at::Tensor>> by_device;
  for (const at::Tensor& parameter : parameters)
    by_device[parameter.device().str()].push_back(parameter.detach());
  for (auto& [device, tensors] : by_device) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
    const at::Tensor all = torch::cat(flat).div_(group.size());
    all_reduce(group, all);
    std::int64_t offset = 0;
    for (at::Tensor& tensor : tensors) {
      tensor.copy_(all.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
      offset += tensor.numel();
    }
  }
}

at::Device collective_device(const Group& group) {
  const auto types = group.process_group()->getDeviceTypes();
  for (const at::Device& device : types) {
    if (device.is_cpu()) return device;
  }
  const c10::DeviceType type = types.empty() ? c10::DeviceType::CPU : types.front().type();
  if (type == c10::DeviceType::CPU) return {type};
  return c10::impl::VirtualGuardImpl(type).getDevice();
}

}  // namespace ddprun
