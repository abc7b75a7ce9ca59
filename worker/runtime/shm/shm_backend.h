#pragma once

#include "worker/runtime/shm/arena.h"
#include "worker/runtime/shm/engine.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace ddprun::runtime::shm {

/// c10d's interface to Engine and the collectives. Made by make_shm_backend().
///
/// Errors   misuse that this rank can see throws ddprun::Exception (kUsage) from the call; everything else
/// from the
///          Work's wait() and its future: kPeerLost, kTimeout, kUsage for calls that differ between ranks.
/// Threads  any; collectives of a group are called in the same order on every rank.
/// Blocking with asyncOp = false the call returns when the collective has ended; otherwise it may run the
/// collective
///          at once, when all ranks come within 0.1 ms, or leave it to a background thread.
class ShmBackend final : public c10d::Backend {
 public:
  ShmBackend(std::shared_ptr<Segment> segment, std::unique_ptr<Group> group,
             std::chrono::milliseconds timeout);

  /// Memory in which all-reduce needs no copies.
  [[nodiscard]] const std::shared_ptr<Arena>& arena() const { return arena_; }

  const std::string getBackendName() const override { return "shm"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override { engine_.abort(); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  struct Call {
    c10d::OpType type;
    std::chrono::milliseconds timeout;
    bool is_async;
  };

  c10::intrusive_ptr<c10d::Work> run(const Call& call, std::unique_ptr<Collective> collective,
                                     std::vector<at::Tensor> tensors);

  std::shared_ptr<Arena> arena_;
  Engine engine_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace ddprun::runtime::shm
