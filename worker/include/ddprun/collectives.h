#pragma once

#include <ddprun/group.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Collectives with names one can read: Python's torch.distributed. What holds for all of them:
///
/// Shapes   contiguous tensors of the same shape on every rank, unless a function says otherwise.
/// Dtypes   the same on every rank; numbers and bool as far as the backend has them.
/// Device   that which the backend serves: gloo and shm the CPU, nccl this rank's GPU.
/// Order    every rank of the group calls the same ones in the same order. Ranks are counted in the group.
/// Errors   Exception kConfig for what this rank can see to be wrong (a rank that is not in the group, counts
///          that do not fit), before anything is sent; what the backend throws (Exception, c10::Error,
///          std::runtime_error) when a peer leaves or the group's time-out passes.
/// Threads  any, one at a time for a group.
namespace ddprun {

/// How the tensors of all ranks become one. Done by the backend: kAverage takes what it takes (gloo: no
/// integers), the bitwise ones integers and bool.
class ReduceOp {
 public:
  enum Kind { kSum, kAverage, kProduct, kMin, kMax, kBitwiseAnd, kBitwiseOr, kBitwiseXor, kPremulSum };

  ReduceOp(Kind kind) : kind_(kind) {}  // NOLINT: meant to convert

  /// The sum of the tensors, each times `factor`, which may differ between ranks. Floating point. nccl
  /// multiplies on the way; with gloo and shm the tensor is multiplied first, a copy where nothing is in place.
  static ReduceOp premul_sum(double factor) {
    ReduceOp op(kPremulSum);
    op.factor_ = factor;
    return op;
  }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] double factor() const { return factor_; }

 private:
  Kind kind_;
  double factor_ = 1;
};

/// A collective under way. The tensors it was given must not be touched before `wait` returns. Dropping it
/// without waiting leaves the tensors undefined until the next barrier.
class Pending {
 public:
  explicit Pending(std::vector<c10::intrusive_ptr<c10d::Work>> work) : work_(std::move(work)) {}

  /// Blocks until the result is there (on a GPU: until the current stream may use it). Idempotent.
  void wait();
  /// The same for at most `timeout`, in place of the group's: Python's work.wait(timeout).
  /// Errors  Exception kTimeout when it has passed: the collective stays under way, and wait() may be called
  ///         again. Messages over gloo, and nccl, do not survive it, and throw what their backend throws.
  ///         kConfig for a time-out that is not above 0.
  void wait(std::chrono::milliseconds timeout);
  [[nodiscard]] bool is_done() const;

  /// What Python's work.get_future() gives: completed with the tensors of the result.
  /// Errors  c10::Error where the backend has none (messages over gloo); Exception kConfig for what it makes of
  ///         several parts.
  [[nodiscard]] c10::intrusive_ptr<c10::ivalue::Future> future() const;

  /// After wait(), who sent what async_receive_from_any has received. Of nothing else.
  [[nodiscard]] int source_rank() const;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> work_;
  bool waited_ = false;
};

/// Every rank's tensor becomes the reduction of all. In place.
void all_reduce(const Group& group, at::Tensor tensor, ReduceOp op = ReduceOp::kSum);
[[nodiscard]] Pending async_all_reduce(const Group& group, at::Tensor tensor, ReduceOp op = ReduceOp::kSum);

/// `to_rank`'s tensor becomes the reduction of all; the others' are undefined afterwards.
void reduce(const Group& group, at::Tensor tensor, int to_rank, ReduceOp op = ReduceOp::kSum);
[[nodiscard]] Pending async_reduce(const Group& group, at::Tensor tensor, int to_rank,
                                   ReduceOp op = ReduceOp::kSum);

/// Every rank's tensor becomes `from_rank`'s. In place.
void broadcast(const Group& group, at::Tensor tensor, int from_rank = 0);
[[nodiscard]] Pending async_broadcast(const Group& group, at::Tensor tensor, int from_rank = 0);

/// All ranks' tensors, by rank.
[[nodiscard]] std::vector<at::Tensor> all_gather(const Group& group, const at::Tensor& tensor);
/// The same into tensors that are there already, one per rank.
[[nodiscard]] Pending async_all_gather(const Group& group, const at::Tensor& tensor,
                                       std::vector<at::Tensor> into);

/// All ranks' tensors, by rank; they may differ in shape, not in dtype. Two collectives.
[[nodiscard]] std::vector<at::Tensor> all_gather_ragged(const Group& group, const at::Tensor& tensor);

/// All ranks' tensors on `to_rank`, an empty vector elsewhere.
[[nodiscard]] std::vector<at::Tensor> gather(const Group& group, const at::Tensor& tensor, int to_rank = 0);
/// The same into tensors that are there already: one per rank on `to_rank`, none elsewhere.
[[nodiscard]] Pending async_gather(const Group& group, const at::Tensor& tensor, std::vector<at::Tensor> into,
                                   int to_rank = 0);

/// All ranks' tensors one after the other, by rank. `output` has as many elements as all of them, in any
/// shape.
void all_gather_into_tensor(const Group& group, at::Tensor output, const at::Tensor& input);
[[nodiscard]] Pending async_all_gather_into_tensor(const Group& group, at::Tensor output,
                                                   const at::Tensor& input);

/// `into` becomes this rank's entry of `from_rank`'s `pieces` (one per rank; ignored elsewhere).
void scatter(const Group& group, at::Tensor into, const std::vector<at::Tensor>& pieces, int from_rank = 0);
[[nodiscard]] Pending async_scatter(const Group& group, at::Tensor into,
                                    const std::vector<at::Tensor>& pieces, int from_rank = 0);

/// `into` becomes the reduction of all ranks' `pieces[rank()]`. One piece per rank.
void reduce_scatter(const Group& group, at::Tensor into, const std::vector<at::Tensor>& pieces,
                    ReduceOp op = ReduceOp::kSum);
[[nodiscard]] Pending async_reduce_scatter(const Group& group, at::Tensor into,
                                           const std::vector<at::Tensor>& pieces,
                                           ReduceOp op = ReduceOp::kSum);

/// `output` becomes this rank's part, by rank, of the reduction of all `input`s. `input` has size() times its
/// elements, in any shape.
void reduce_scatter_tensor(const Group& group, at::Tensor output, const at::Tensor& input,
                           ReduceOp op = ReduceOp::kSum);
[[nodiscard]] Pending async_reduce_scatter_tensor(const Group& group, at::Tensor output,
                                                  const at::Tensor& input, ReduceOp op = ReduceOp::kSum);

/// Many tensors of one dtype in one call: what the function without `_coalesced` does to each. Less work per
/// tensor. The lists are as long on every rank, with the same shapes in the same order.
void all_reduce_coalesced(const Group& group, const std::vector<at::Tensor>& tensors,
                          ReduceOp op = ReduceOp::kSum);
[[nodiscard]] Pending async_all_reduce_coalesced(const Group& group, const std::vector<at::Tensor>& tensors,
                                                 ReduceOp op = ReduceOp::kSum);
void all_gather_into_tensor_coalesced(const Group& group, const std::vector<at::Tensor>& outputs,
                                      const std::vector<at::Tensor>& inputs);
[[nodiscard]] Pending async_all_gather_into_tensor_coalesced(const Group& group,
                                                             const std::vector<at::Tensor>& outputs,
                                                             const std::vector<at::Tensor>& inputs);
void reduce_scatter_tensor_coalesced(const Group& group, const std::vector<at::Tensor>& outputs,
                                     const std::vector<at::Tensor>& inputs, ReduceOp op = ReduceOp::kSum);
[[nodiscard]] Pending async_reduce_scatter_tensor_coalesced(const Group& group,
                                                            const std::vector<at::Tensor>& outputs,
                                                            const std::vector<at::Tensor>& inputs,
                                                            ReduceOp op = ReduceOp::kSum);

/// `into[r]` becomes rank r's `pieces[rank()]`. One entry per rank in both; sizes may differ between pairs of
/// ranks. With empty entries it is a gather or a scatter of differing sizes. All of one dtype.
/// Errors   Exception kConfig: several dtypes, or what this rank keeps for itself is not as large as its place.
void all_to_all(const Group& group, std::vector<at::Tensor> into, const std::vector<at::Tensor>& pieces);
[[nodiscard]] Pending async_all_to_all(const Group& group, std::vector<at::Tensor> into,
                                       const std::vector<at::Tensor>& pieces);

/// How the rows of two tensors, along their first dimension, are dealt out to the ranks: so many for each, by
/// rank. Empty: equally many.
struct RowSplits {
  std::vector<std::int64_t> output{};
  std::vector<std::int64_t> input{};
};

/// Rank r gets this rank's r-th split of `input`, and `output` is what came from each, by rank: all_to_all
/// within two tensors. What this rank sends to r is as much as r expects of it.
///
///     all_to_all_single(context, output, input);  // equal splits
///     all_to_all_single(context, output, input, {.output = counts, .input = {2, 0}});
///
/// Errors   Exception kConfig: splits that are negative, not one for each rank, or not as many rows as there
///          are.
void all_to_all_single(const Group& group, at::Tensor output, const at::Tensor& input,
                       const RowSplits& splits = {});
[[nodiscard]] Pending async_all_to_all_single(const Group& group, at::Tensor output, const at::Tensor& input,
                                              const RowSplits& splits = {});

/// Returns when every rank has come here.
/// Threads  the call, not the wait, from one at a time in the process, also for several groups:
///          c10d::ProcessGroup::barrier assigns to one static tensor, without a lock (2.11).
void barrier(const Group& group);
[[nodiscard]] Pending async_barrier(const Group& group);

/// A barrier for those who look for a rank that hangs: when not all ranks have come within `timeout`
/// (default: the group's), every rank gets kTimeout with the ranks that did not. Goes through the group's
/// store, on the host alone: it works beside any backend, waits for no GPU, and is slow. After a failure it may be
/// called again; a rank that comes late to a call that has failed gets its error, and goes on to the next. Collective.
void monitored_barrier(const Group& group, std::optional<std::chrono::milliseconds> timeout = {});

/// Point to point; a send matches the receive of the same tag and shape. Tags are from 0 to 2147483646.
void send(const Group& group, const at::Tensor& tensor, int to_rank, int tag = 0);
void receive(const Group& group, at::Tensor into, int from_rank, int tag = 0);
[[nodiscard]] Pending async_send(const Group& group, const at::Tensor& tensor, int to_rank, int tag = 0);
[[nodiscard]] Pending async_receive(const Group& group, at::Tensor into, int from_rank, int tag = 0);

/// Receives from whoever sends the first message of this tag, and says who: Python's recv without a source.
/// gloo and shm; nccl has none, and its backend says so.
int receive_from_any(const Group& group, at::Tensor into, int tag = 0);
/// The same; Pending::source_rank() says who after wait().
[[nodiscard]] Pending async_receive_from_any(const Group& group, at::Tensor into, int tag = 0);

/// One message of a batch.
struct P2POp {
  enum class Kind { kSend, kReceive };

  Kind kind;
  at::Tensor tensor;
  int peer;  ///< rank in the group; not this rank
  int tag = 0;

  static P2POp isend(at::Tensor tensor, int to_rank, int tag = 0) {
    return {Kind::kSend, std::move(tensor), to_rank, tag};
  }
  static P2POp irecv(at::Tensor into, int from_rank, int tag = 0) {
    return {Kind::kReceive, std::move(into), from_rank, tag};
  }
};

/// Begins all messages at once, so that their order cannot deadlock; on nccl they are one group call. All
/// tensors on one type of device, dense and contiguous: a batch with one that is not is refused whole. Messages
/// between the same two ranks stand in the same order on both sides.
/// On nccl all ranks take part in the first call on a group.
[[nodiscard]] Pending batch_isend_irecv(const Group& group, const std::vector<P2POp>& ops);

/// What Python's *_object functions do, for bytes: an object in any serialisation. They wait.
///
/// `from_rank`'s bytes on every rank. Two collectives.
[[nodiscard]] std::string broadcast_bytes(const Group& group, const std::string& bytes, int from_rank = 0);
/// A list of them; the number of entries is the sender's. Two collectives.
[[nodiscard]] std::vector<std::string> broadcast_bytes_list(const Group& group,
                                                            const std::vector<std::string>& list,
                                                            int from_rank = 0);
/// All ranks' bytes, by rank. Two collectives.
[[nodiscard]] std::vector<std::string> all_gather_bytes(const Group& group, const std::string& bytes);
/// All ranks' bytes, by rank, on `to_rank`; an empty vector elsewhere. Two collectives.
[[nodiscard]] std::vector<std::string> gather_bytes(const Group& group, const std::string& bytes,
                                                    int to_rank = 0);
/// This rank's entry of `from_rank`'s list (one per rank; ignored elsewhere). Two collectives.
[[nodiscard]] std::string scatter_bytes(const Group& group, const std::vector<std::string>& list,
                                        int from_rank = 0);
/// From rank to rank. Two messages of the same tag.
void send_bytes(const Group& group, const std::string& bytes, int to_rank, int tag = 0);
[[nodiscard]] std::string receive_bytes(const Group& group, int from_rank, int tag = 0);

/// Every parameter becomes its mean over all ranks: parameter averaging in place of gradient averaging. One
/// all-reduce per device, in the dtype that all of them fit into. Python's, of model_averaging/utils.py.
void average_parameters(const Group& group, const std::vector<at::Tensor>& parameters);

/// Where the backend of `group` wants small helper tensors: the CPU if it serves it, else the current GPU.
[[nodiscard]] at::Device collective_device(const Group& group);

}  // namespace ddprun
