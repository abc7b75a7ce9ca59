#pragma once

#include <ddprun/group.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Collectives with names one can read. All of them
///   are collective: every rank of the group calls the same ones in the same order, with tensors of the same
///   dtype and
///     (unless said otherwise) the same shape;
///   take contiguous tensors on the device that the backend serves (gloo and shm: CPU, nccl: this rank's
///   GPU); throw what the backend throws (c10::Error, std::runtime_error) when a peer leaves or the time-out
///   passes.
namespace ddprun {

enum class ReduceOp { kSum, kAverage, kProduct, kMin, kMax };

/// A collective under way. The tensors it was given must not be touched before `wait` returns. Dropping it
/// without waiting leaves the tensors undefined until the next barrier.
class Pending {
 public:
  explicit Pending(std::vector<c10::intrusive_ptr<c10d::Work>> work, std::function<void()> finish = {})
      : work_(std::move(work)), finish_(std::move(finish)) {}

  /// Blocks until the result is there (on a GPU: until the current stream may use it). Idempotent.
  void wait();
  [[nodiscard]] bool is_done() const;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> work_;
  std::function<void()> finish_;
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

/// `into[r]` becomes rank r's `pieces[rank()]`. One entry per rank in both; sizes may differ between pairs of
/// ranks. With empty entries it is a gather or a scatter of differing sizes.
void all_to_all(const Group& group, std::vector<at::Tensor> into, const std::vector<at::Tensor>& pieces);
[[nodiscard]] Pending async_all_to_all(const Group& group, std::vector<at::Tensor> into,
                                       const std::vector<at::Tensor>& pieces);

/// Returns when every rank has come here.
void barrier(const Group& group);
[[nodiscard]] Pending async_barrier(const Group& group);

/// Point to point; a send matches the receive of the same tag and shape.
void send(const Group& group, const at::Tensor& tensor, int to_rank, int tag = 0);
void receive(const Group& group, at::Tensor into, int from_rank, int tag = 0);
[[nodiscard]] Pending async_send(const Group& group, const at::Tensor& tensor, int to_rank, int tag = 0);
[[nodiscard]] Pending async_receive(const Group& group, at::Tensor into, int from_rank, int tag = 0);

/// `from_rank`'s bytes on every rank: for small objects in any serialisation. Two collectives.
[[nodiscard]] std::string broadcast_bytes(const Group& group, const std::string& bytes, int from_rank = 0);
/// All ranks' bytes, by rank. Two collectives.
[[nodiscard]] std::vector<std::string> all_gather_bytes(const Group& group, const std::string& bytes);

/// Every parameter becomes its mean over all ranks: parameter averaging in place of gradient averaging. One
/// all-reduce per dtype and device.
void average_parameters(const Group& group, const std::vector<at::Tensor>& parameters);

/// Where the backend of `group` wants small helper tensors: the CPU if it serves it, else the current GPU.
[[nodiscard]] at::Device collective_device(const Group& group);

}  // namespace ddprun
