#pragma once

#include "rendezvous/base/result.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

namespace ddprun::runtime::shm {

/// A collective that has ended or runs in the background. wait() and the future throw ddprun::Exception.
class ShmWork final : public c10d::Work {
 public:
  /// `tensors` are kept alive until the end, and are the result.
  ShmWork(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> tensors);

  /// Ends it, once. Any thread.
  void complete(const Result<void>& outcome, int source_rank = -1);

  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  [[nodiscard]] std::uint64_t getSequencenumber() const override { return sequence_; }
  [[nodiscard]] int sourceRank() const override { return source_rank_; }

 private:
  void settle(c10::ivalue::Future& future) const;

  std::vector<at::Tensor> tensors_;
  std::uint64_t sequence_;
  int source_rank_ = -1;
  std::mutex future_mutex_;
  bool is_over_ = false;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< made when first asked for
};

}  // namespace ddprun::runtime::shm
