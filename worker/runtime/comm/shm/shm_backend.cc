#include "worker/runtime/comm/shm/shm_backend.h"

#include "worker/runtime/comm/backend/progress.h"
#include "worker/runtime/comm/shm/all_reduce.h"
#include "worker/runtime/comm/shm/all_to_all.h"
#include "worker/runtime/comm/shm/broadcast.h"
#include "worker/runtime/comm/shm/coalesced_all_reduce.h"
#include "worker/runtime/comm/shm/gate_only.h"
#include "worker/runtime/comm/shm/gather.h"
#include "worker/runtime/comm/shm/reduce_scatter.h"
#include "worker/runtime/comm/shm/scatter.h"
#include "worker/runtime/comm/shm/sparse_all_reduce.h"
#include "worker/runtime/comm/shm/tensors.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace ddprun::runtime::shm {
namespace {

constexpr int kAnybody = -1;  ///< as the sender a letter comes from

const Kernels* kernels_for(const Description& what) {
  const Kernels* const kernels = find_kernels(what.dtype, what.op);
  if (kernels == nullptr) {
    refuse(what.kind, fmt::format("{} is not defined for {}", to_string(what.op), to_string(what.dtype)));
  }
  return kernels;
}

/// Checks that there is one tensor per rank, like `one` or holding `one`.
void check_one_per_rank(Kind kind, const std::vector<at::Tensor>& tensors, const at::Tensor& like, int size) {
  if (tensors.size() != static_cast<std::size_t>(size)) {
    refuse(kind, fmt::format("got {} tensors for {} ranks; pass one per rank", tensors.size(), size));
  }
  for (const at::Tensor& tensor : tensors) check_alike(kind, tensor, like);
}

/// The only list in a list of lists.
std::vector<at::Tensor>& only_list(Kind kind, std::vector<std::vector<at::Tensor>>& lists) {
  if (lists.size() != 1)
    refuse(kind, fmt::format("got {} lists of tensors; pass one per call", lists.size()));
  return lists.front();
}

/// `tensor` cut into `size` equal parts of the shape of `part`, without a copy.
std::vector<at::Tensor> cut(Kind kind, const at::Tensor& tensor, const at::Tensor& part, int size) {
  if (tensor.scalar_type() != part.scalar_type() || tensor.numel() != part.numel() * size) {
    refuse(kind, fmt::format("a tensor of {} elements cannot be the {} parts of {} elements of the {} ranks",
                             tensor.numel(), size, part.numel(), size));
  }
  bytes_of(kind, tensor);
  const at::Tensor flat = tensor.view({-1});
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank) {
    parts.push_back(flat.narrow(0, rank * part.numel(), part.numel()));
  }
  return parts;
}

/// The rows of `tensor` for each rank, as c10d counts them: equal parts when `splits` is empty.
std::vector<AllToAll::Part> split_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                                       int size) {
  const Bytes bytes = bytes_of(Kind::kAllToAll, tensor);
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<std::int64_t> counts = splits;
  if (counts.empty() && rows % size == 0) counts.assign(static_cast<std::size_t>(size), rows / size);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (counts.size() != static_cast<std::size_t>(size) || total != rows) {
    refuse(Kind::kAllToAll,
           fmt::format("{} rows cannot be split over {} ranks as [{}]", rows, size, fmt::join(splits, ", ")));
  }
  const std::size_t row_bytes = rows == 0 ? 0 : bytes.size / static_cast<std::size_t>(rows);
  std::vector<AllToAll::Part> parts;
  std::byte* data = bytes.data;
  for (const std::int64_t count : counts) {
    parts.push_back({.data = data, .bytes = static_cast<std::size_t>(count) * row_bytes});
    data += parts.back().bytes;
  }
  return parts;
}

Description describe_all_to_all(const at::Tensor& tensor) {
  return {.kind = Kind::kAllToAll, .dtype = to_dtype(tensor.scalar_type())};
}

}  // namespace

ShmBackend::ShmBackend(std::shared_ptr<Segment> segment, std::unique_ptr<Group> group,
                       std::chrono::milliseconds timeout, std::string_view name)
    : Backend(group->rank(), group->size()),
      arena_(std::make_shared<Arena>(segment, group->rank())),
      mailbox_(std::move(segment), group->rank()),
      engine_(std::move(group)),
      timeout_(timeout),
      progress_group_(Progress::instance().add_group(name)) {}

ShmBackend::~ShmBackend() { Progress::instance().remove_group(progress_group_); }

Ref<c10d::Backend::Options> ShmBackend::getBackendOptions() {
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

Ref<ShmWork> ShmBackend::run(const Call& call, std::unique_ptr<Collective> collective,
                             std::vector<at::Tensor> outputs, std::vector<at::Tensor> inputs) {
  const auto timeout = call.timeout == c10d::kUnsetTimeout ? timeout_.load() : call.timeout;
  auto work =
      c10::make_intrusive<ShmWork>(rank_, call.type, ++sequence_, std::move(outputs), std::move(inputs));
  const Description what = collective->describe();
  work->set_progress_id(
      Progress::instance().enter({.operation = operation_of(what.kind),
                                  .sequence = ++collectives_,
                                  .elements = static_cast<std::int64_t>(what.count),
                                  .dtype = static_cast<std::int16_t>(to_scalar_type(what.dtype)),
                                  .group = progress_group_}));
  const auto patience = call.is_async ? Patience::kShort : Patience::kBlocking;
  const auto outcome = engine_.submit(std::move(collective), timeout, patience, [&work]() -> Engine::Done {
    return [work](const Result<void>& result) { work->complete(result); };
  });
  if (outcome) work->complete(*outcome);
  return work;
}

// The works end in the order of their submission, and after an error all do with one: the last stands for
// all.
template <class RunOne>
Ref<c10d::Work> ShmBackend::run_each(const Call& call, std::size_t count, const RunOne& run_one) {
  Ref<ShmWork> last;
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    last = run_one(i);
    const std::vector<at::Tensor> more = last->result();
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  if (!last) {
    last = c10::make_intrusive<ShmWork>(rank_, call.type, sequence_, outputs, outputs);
    last->complete(ok());
  }
  last->set_outputs(std::move(outputs));
  return last;
}

Ref<ShmWork> ShmBackend::run_all_reduce(const Call& call, const at::Tensor& tensor, ReduceOp op, int root) {
  const Kind kind = root < 0 ? Kind::kAllReduce : Kind::kReduce;
  const at::Tensor numbers = real_numbers(kind, tensor, op);
  const Bytes bytes = bytes_of(kind, numbers);
  Description what = describe(kind, numbers);
  what.op = op;
  what.root = root;
  return run(call,
             std::make_unique<AllReduce>(AllReduce::Arguments{
                 .in = bytes.data, .out = bytes.data, .what = what, .kernels = kernels_for(what)}),
             {tensor});
}

Ref<c10d::Work> ShmBackend::allreduce(std::vector<at::Tensor>& tensors,
                                      const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(Kind::kAllReduce, tensors);
  if (tensor.is_sparse()) return allreduce_sparse(tensors, options);
  return run_all_reduce({c10d::OpType::ALLREDUCE, options.timeout, options.asyncOp}, tensor,
                        to_reduce_op(options.reduceOp), -1);
}

Ref<c10d::Work> ShmBackend::allreduce_sparse(std::vector<at::Tensor>& tensors,
                                             const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(Kind::kSparseAllReduce, tensors);
  if (options.reduceOp != c10d::ReduceOp::SUM || tensor.layout() != at::kSparse ||
      !tensor.device().is_cpu()) {
    refuse(Kind::kSparseAllReduce, "only sums of sparse COO tensors on the CPU");
  }
  return run({c10d::OpType::_ALLREDUCE_SPARSE, options.timeout, options.asyncOp},
             std::make_unique<SparseAllReduce>(tensor), {tensor});
}

Ref<c10d::Work> ShmBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                const c10d::AllreduceCoalescedOptions& options) {
  if (tensors.empty()) refuse(Kind::kAllReduce, "got no tensors; pass at least one");
  const ReduceOp op = to_reduce_op(options.reduceOp);
  std::vector<at::Tensor> flats;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != tensors.front().scalar_type())
      refuse(Kind::kAllReduce, "got tensors of several dtypes; pass one dtype per call");
    bytes_of(Kind::kAllReduce, tensor);
    flats.push_back(real_numbers(Kind::kAllReduce, tensor, op).reshape({-1}));
  }
  const at::Tensor flat = at::cat(flats);
  Description what = describe(Kind::kAllReduce, flat);
  what.op = op;
  auto* const data = static_cast<std::byte*>(flat.data_ptr());
  const AllReduce::Arguments whole{.in = data, .out = data, .what = what, .kernels = kernels_for(what)};
  return run({c10d::OpType::ALLREDUCE_COALESCED, options.timeout, options.asyncOp},
             std::make_unique<CoalescedAllReduce>(flat, tensors, whole), tensors);
}

Ref<c10d::Work> ShmBackend::reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) {
  return run_all_reduce({c10d::OpType::REDUCE, options.timeout, options.asyncOp},
                        only(Kind::kReduce, tensors), to_reduce_op(options.reduceOp),
                        root_of(Kind::kReduce, options.rootRank));
}

Ref<c10d::Work> ShmBackend::broadcast(std::vector<at::Tensor>& tensors,
                                      const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(Kind::kBroadcast, tensors);
  const Bytes bytes = bytes_of(Kind::kBroadcast, tensor);
  Description what = describe(Kind::kBroadcast, tensor);
  what.root = root_of(Kind::kBroadcast, options.rootRank);
  return run({c10d::OpType::BROADCAST, options.timeout, options.asyncOp},
             std::make_unique<Broadcast>(bytes.data, bytes.size, what), {tensor});
}

Ref<ShmWork> ShmBackend::run_gather(const Call& call, const at::Tensor& input,
                                    const std::vector<at::Tensor>& outputs, Kind kind, int root) {
  const Bytes in = bytes_of(kind, input);
  Description what = describe(kind, input);
  what.root = root;
  std::vector<std::byte*> outs;
  for (const at::Tensor& output : outputs) outs.push_back(bytes_of(kind, output).data);
  return run(call, std::make_unique<Gather>(in.data, in.size, std::move(outs), what), outputs, {input});
}

Ref<c10d::Work> ShmBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                      std::vector<at::Tensor>& inputs,
                                      const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(Kind::kAllGather, inputs);
  const std::vector<at::Tensor>& outs = only_list(Kind::kAllGather, outputs);
  check_one_per_rank(Kind::kAllGather, outs, input, size_);
  return run_gather({c10d::OpType::ALLGATHER, options.timeout, options.asyncOp}, input, outs,
                    Kind::kAllGather, -1);
}

Ref<c10d::Work> ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                            const c10d::AllgatherOptions& options) {
  return run_gather({c10d::OpType::_ALLGATHER_BASE, options.timeout, options.asyncOp}, input,
                    cut(Kind::kAllGather, output, input, size_), Kind::kAllGather, -1);
}

// c10d's order here: a list per input, with an output per rank.
Ref<c10d::Work> ShmBackend::allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                std::vector<at::Tensor>& inputs,
                                                const c10d::AllgatherOptions& options) {
  if (outputs.size() != static_cast<std::size_t>(size_)) {
    refuse(Kind::kAllGather, fmt::format("got {} lists of outputs for {} ranks", outputs.size(), size_));
  }
  const Call call{c10d::OpType::ALLGATHER_COALESCED, options.timeout, options.asyncOp};
  return run_each(call, inputs.size(), [&](std::size_t i) {
    std::vector<at::Tensor> outs;
    for (const std::vector<at::Tensor>& of_rank : outputs) outs.push_back(of_rank.at(i));
    check_one_per_rank(Kind::kAllGather, outs, inputs[i], size_);
    return run_gather(call, inputs[i], outs, Kind::kAllGather, -1);
  });
}

Ref<c10d::Work> ShmBackend::allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                            std::vector<at::Tensor>& inputs,
                                                            const c10d::AllgatherOptions& options) {
  if (outputs.size() != inputs.size()) {
    refuse(Kind::kAllGather, fmt::format("got {} outputs for {} inputs", outputs.size(), inputs.size()));
  }
  const Call call{c10d::OpType::COALESCED, options.timeout, options.asyncOp};
  return run_each(call, inputs.size(), [&](std::size_t i) {
    return run_gather(call, inputs[i], cut(Kind::kAllGather, outputs[i], inputs[i], size_), Kind::kAllGather,
                      -1);
  });
}

Ref<c10d::Work> ShmBackend::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                   std::vector<at::Tensor>& inputs, const c10d::GatherOptions& options) {
  const at::Tensor& input = only(Kind::kGather, inputs);
  const int root = root_of(Kind::kGather, options.rootRank);
  const Call call{c10d::OpType::GATHER, options.timeout, options.asyncOp};
  if (rank_ != root) return run_gather(call, input, {}, Kind::kGather, root);
  const std::vector<at::Tensor>& outs = only_list(Kind::kGather, outputs);
  check_one_per_rank(Kind::kGather, outs, input, size_);
  return run_gather(call, input, outs, Kind::kGather, root);
}

Ref<c10d::Work> ShmBackend::scatter(std::vector<at::Tensor>& outputs,
                                    std::vector<std::vector<at::Tensor>>& inputs,
                                    const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(Kind::kScatter, outputs);
  const Bytes out = bytes_of(Kind::kScatter, output);
  Description what = describe(Kind::kScatter, output);
  what.root = root_of(Kind::kScatter, options.rootRank);
  std::vector<at::Tensor> parts;
  std::vector<const std::byte*> ins;
  if (rank_ == what.root) {
    parts = only_list(Kind::kScatter, inputs);
    check_one_per_rank(Kind::kScatter, parts, output, size_);
    for (const at::Tensor& part : parts) ins.push_back(bytes_of(Kind::kScatter, part).data);
  }
  return run({c10d::OpType::SCATTER, options.timeout, options.asyncOp},
             std::make_unique<Scatter>(std::move(ins), out.data, out.size, what), {output}, std::move(parts));
}

Ref<ShmWork> ShmBackend::run_reduce_scatter(const Call& call, const at::Tensor& output,
                                            const std::vector<at::Tensor>& inputs, ReduceOp op,
                                            bool is_one_tensor) {
  const at::Tensor numbers = real_numbers(Kind::kReduceScatter, output, op);
  Description what = describe(Kind::kReduceScatter, numbers);
  what.op = op;
  std::vector<const std::byte*> ins;
  for (const at::Tensor& input : inputs) ins.push_back(bytes_of(Kind::kReduceScatter, input).data);
  return run(
      call,
      std::make_unique<ReduceScatter>(ReduceScatter::Arguments{.ins = std::move(ins),
                                                               .out = bytes_of(what.kind, numbers).data,
                                                               .what = what,
                                                               .kernels = kernels_for(what),
                                                               .is_one_tensor = is_one_tensor}),
      {output}, inputs);
}

Ref<c10d::Work> ShmBackend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                           std::vector<std::vector<at::Tensor>>& inputs,
                                           const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(Kind::kReduceScatter, outputs);
  const std::vector<at::Tensor>& parts = only_list(Kind::kReduceScatter, inputs);
  check_one_per_rank(Kind::kReduceScatter, parts, output, size_);
  return run_reduce_scatter({c10d::OpType::REDUCE_SCATTER, options.timeout, options.asyncOp}, output, parts,
                            to_reduce_op(options.reduceOp), /*is_one_tensor=*/false);
}

Ref<c10d::Work> ShmBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::ReduceScatterOptions& options) {
  return run_reduce_scatter({c10d::OpType::_REDUCE_SCATTER_BASE, options.timeout, options.asyncOp}, output,
                            cut(Kind::kReduceScatter, input, output, size_), to_reduce_op(options.reduceOp),
                            /*is_one_tensor=*/true);
}

Ref<c10d::Work> ShmBackend::reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                            std::vector<at::Tensor>& inputs,
                                                            const c10d::ReduceScatterOptions& options) {
  if (outputs.size() != inputs.size()) {
    refuse(Kind::kReduceScatter, fmt::format("got {} outputs for {} inputs", outputs.size(), inputs.size()));
  }
  const Call call{c10d::OpType::COALESCED, options.timeout, options.asyncOp};
  return run_each(call, inputs.size(), [&](std::size_t i) {
    return run_reduce_scatter(call, outputs[i], cut(Kind::kReduceScatter, inputs[i], outputs[i], size_),
                              to_reduce_op(options.reduceOp), /*is_one_tensor=*/true);
  });
}

Ref<c10d::Work> ShmBackend::alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                     const c10d::AllToAllOptions& options) {
  const auto size = static_cast<std::size_t>(size_);
  if (inputs.size() != size || outputs.size() != size) {
    refuse(Kind::kAllToAll,
           fmt::format("got {} inputs and {} outputs for {} ranks; pass one of each per rank", inputs.size(),
                       outputs.size(), size_));
  }
  std::vector<AllToAll::Part> ins;
  std::vector<AllToAll::Part> outs;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const Bytes in = bytes_of(Kind::kAllToAll, inputs[rank]);
    const Bytes out = bytes_of(Kind::kAllToAll, outputs[rank]);
    ins.push_back({in.data, in.size});
    outs.push_back({out.data, out.size});
  }
  return run({c10d::OpType::ALLTOALL, options.timeout, options.asyncOp},
             std::make_unique<AllToAll>(std::move(ins), std::move(outs), describe_all_to_all(inputs.front())),
             outputs, inputs);
}

Ref<c10d::Work> ShmBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                          std::vector<int64_t>& output_splits,
                                          std::vector<int64_t>& input_splits,
                                          const c10d::AllToAllOptions& options) {
  return run({c10d::OpType::ALLTOALL_BASE, options.timeout, options.asyncOp},
             std::make_unique<AllToAll>(split_rows(input, input_splits, size_),
                                        split_rows(output, output_splits, size_), describe_all_to_all(input)),
             {output}, {input});
}

void ShmBackend::abort() {
  engine_.abort();
  mailbox_.abort();
}

void ShmBackend::check_peer(Kind kind, int peer, int tag) const {
  if (peer >= 0 && peer < size_ && tag >= 0) return;
  refuse(kind,
         fmt::format("rank {} and tag {} are not of a group of {} ranks and tags from 0", peer, tag, size_));
}

int ShmBackend::root_of(Kind kind, std::int64_t rank) const {
  if (rank >= 0 && rank < size_) return static_cast<int>(rank);
  refuse(kind, fmt::format("rank {} is outside a group of {} ranks", rank, size_));
}

Mailbox::Letter ShmBackend::letter(Kind kind, const at::Tensor& tensor, int peer, int tag) const {
  const Bytes bytes = bytes_of(kind, tensor);
  return {.peer = peer,
          .tag = static_cast<std::uint32_t>(tag),
          .dtype = to_dtype(tensor.scalar_type()),
          .data = bytes.data,
          .bytes = bytes.size,
          .timeout = timeout_.load()};
}

Ref<ShmWork> ShmBackend::begin_message(c10d::OpType type, std::string_view operation,
                                       const at::Tensor& tensor, int peer) {
  auto work =
      c10::make_intrusive<ShmWork>(rank_, type, ++sequence_, std::vector{tensor}, std::vector{tensor});
  work->set_progress_id(
      Progress::instance().enter({.operation = operation,
                                  .sequence = ++messages_,
                                  .elements = tensor.numel(),
                                  .dtype = static_cast<std::int16_t>(tensor.scalar_type()),
                                  .group = progress_group_,
                                  .peer = peer == kAnybody ? ProgressPage::kAnyPeer : peer}));
  return work;
}

Ref<c10d::Work> ShmBackend::send(std::vector<at::Tensor>& tensors, int to, int tag) {
  const at::Tensor& tensor = only(Kind::kSend, tensors);
  check_peer(Kind::kSend, to, tag);
  const Mailbox::Letter mail = letter(Kind::kSend, tensor, to, tag);
  auto work = begin_message(c10d::OpType::SEND, operation_of(Kind::kSend), tensor, to);
  mailbox_.send(mail, [work](const Result<void>& result, int) { work->complete(result); });
  return work;
}

Ref<c10d::Work> ShmBackend::recv(std::vector<at::Tensor>& tensors, int from, int tag) {
  check_peer(Kind::kReceive, from, tag);
  return receive(tensors, from, tag);
}

Ref<c10d::Work> ShmBackend::receive(std::vector<at::Tensor>& tensors, int from, int tag) {
  const at::Tensor& tensor = only(Kind::kReceive, tensors);
  const Mailbox::Letter mail = letter(Kind::kReceive, tensor, from, tag);
  auto work = begin_message(c10d::OpType::RECV, operation_of(Kind::kReceive), tensor, from);
  mailbox_.receive(mail, [work](const Result<void>& result, int source) { work->complete(result, source); });
  return work;
}

Ref<c10d::Work> ShmBackend::recvAnysource(std::vector<at::Tensor>& tensors, int tag) {
  check_peer(Kind::kReceive, 0, tag);
  return receive(tensors, kAnybody, tag);
}

Ref<c10d::Work> ShmBackend::barrier(const c10d::BarrierOptions& options) {
  return run({c10d::OpType::BARRIER, options.timeout, options.asyncOp}, std::make_unique<GateOnly>(), {});
}

void ShmBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool) {
  run({c10d::OpType::BARRIER, options.timeout, false}, std::make_unique<GateOnly>(), {})->wait();
}

}  // namespace ddprun::runtime::shm
