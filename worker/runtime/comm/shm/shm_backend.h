#pragma once

#include "worker/runtime/comm/backend/bucket_memory.h"
#include "worker/runtime/comm/shm/arena_allocator.h"
#include "worker/runtime/comm/shm/engine.h"
#include "worker/runtime/comm/shm/mailbox.h"
#include "worker/runtime/comm/shm/shm_work.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace ddprun::runtime::shm {

template <class T>
using Ref = c10::intrusive_ptr<T>;

/// c10d's interface to Engine and the collectives. Made by make_shm_backend().
///
/// Errors    misuse that this rank can see throws ddprun::Exception (kConfig) from the call; everything else
///           from the Work's wait() and its future: kPeerLost, kTimeout, kConfig for calls that differ between
///           ranks.
/// Threads   any; collectives of a group are called in the same order on every rank.
/// Blocking  with asyncOp = false the call returns when the collective has ended; otherwise it may run the
///           collective at once, when all ranks come within 0.1 ms, or leave it to a background thread.
class ShmBackend final : public c10d::Backend, public BucketMemory {
 public:
  /// `name` is what `ddprun why` calls the group.
  ShmBackend(std::shared_ptr<Segment> segment, std::unique_ptr<Group> group,
             std::chrono::milliseconds timeout, std::string_view name);
  ~ShmBackend() override;

  void use_on_this_thread() override { ArenaAllocator::instance().use_on_this_thread(arena_); }
  void leave_on_this_thread() override { ArenaAllocator::instance().use_on_this_thread(nullptr); }

  const std::string getBackendName() const override { return "shm"; }
  Ref<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override;
  void shutdown() override { abort(); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  Ref<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  Ref<c10d::Work> allreduce_sparse(std::vector<at::Tensor>& tensors,
                                   const c10d::AllreduceOptions& options) override;
  Ref<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                      const c10d::AllreduceCoalescedOptions& options) override;
  Ref<c10d::Work> reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  Ref<c10d::Work> broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;

  Ref<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                            const c10d::AllgatherOptions& options) override;
  Ref<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                  const c10d::AllgatherOptions& options) override;
  Ref<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                      std::vector<at::Tensor>& inputs,
                                      const c10d::AllgatherOptions& options) override;
  Ref<c10d::Work> allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                  std::vector<at::Tensor>& inputs,
                                                  const c10d::AllgatherOptions& options) override;
  Ref<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                         const c10d::GatherOptions& options) override;
  Ref<c10d::Work> scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                          const c10d::ScatterOptions& options) override;
  Ref<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                 std::vector<std::vector<at::Tensor>>& inputs,
                                 const c10d::ReduceScatterOptions& options) override;
  Ref<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                       const c10d::ReduceScatterOptions& options) override;
  Ref<c10d::Work> reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                  std::vector<at::Tensor>& inputs,
                                                  const c10d::ReduceScatterOptions& options) override;
  Ref<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                           const c10d::AllToAllOptions& options) override;
  Ref<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                std::vector<int64_t>& input_splits,
                                const c10d::AllToAllOptions& options) override;
  /// A send has ended when the data is in the segment; see mailbox.h.
  Ref<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  Ref<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  Ref<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;
  Ref<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  /// A barrier whose error, on every rank, names all ranks that did not come.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

 private:
  struct Call {
    c10d::OpType type;
    std::chrono::milliseconds timeout;
    bool is_async;
  };

  Ref<ShmWork> run(const Call& call, std::unique_ptr<Collective> collective, std::vector<at::Tensor> outputs,
                   std::vector<at::Tensor> inputs = {});
  /// One work for several collectives, `run_one(0)` to `run_one(count - 1)`, with all their outputs.
  template <class RunOne>
  Ref<c10d::Work> run_each(const Call& call, std::size_t count, const RunOne& run_one);
  Ref<ShmWork> run_all_reduce(const Call& call, const at::Tensor& tensor, ReduceOp op, int root);
  Ref<ShmWork> run_gather(const Call& call, const at::Tensor& input, const std::vector<at::Tensor>& outputs,
                          Kind kind, int root);
  Ref<ShmWork> run_reduce_scatter(const Call& call, const at::Tensor& output,
                                  const std::vector<at::Tensor>& inputs, ReduceOp op, bool is_one_tensor);

  Ref<c10d::Work> receive(std::vector<at::Tensor>& tensors, int from, int tag);
  Ref<ShmWork> begin_message(c10d::OpType type, std::string_view operation, const at::Tensor& tensor,
                             int peer);
  Mailbox::Letter letter(Kind kind, const at::Tensor& tensor, int peer, int tag) const;
  void check_peer(Kind kind, int peer, int tag) const;
  /// `rank` as the root of a collective.
  [[nodiscard]] int root_of(Kind kind, std::int64_t rank) const;

  std::shared_ptr<Arena> arena_;
  Mailbox mailbox_;
  Engine engine_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> sequence_{0};
  std::uint16_t progress_group_;
  std::atomic<std::int64_t> collectives_{0};  ///< equal on all ranks that are in the same one
  std::atomic<std::int64_t> messages_{0};
};

}  // namespace ddprun::runtime::shm
