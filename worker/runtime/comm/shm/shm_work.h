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
  /// `outputs` are the result; `inputs` are kept alive as long as the work.
  ShmWork(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> outputs,
          std::vector<at::Tensor> inputs);

  /// Makes this the last of several works that are one for the caller; before the caller has it.
  void set_outputs(std::vector<at::Tensor> outputs);

  /// What Progress knows it by.
  void set_progress_id(std::uint64_t id) { progress_id_ = id; }

  /// Ends it, once. Any thread.
  void complete(const Result<void>& outcome, int source_rank = -1);

  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  [[nodiscard]] std::uint64_t getSequencenumber() const override { return sequence_; }
  [[nodiscard]] int sourceRank() const override { return source_rank_; }

 private:
  void settle(c10::ivalue::Future& future) const;

  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> inputs_;
  std::uint64_t sequence_;
  std::uint64_t progress_id_ = 0;
  int source_rank_ = -1;
  std::mutex future_mutex_;
  bool is_over_ = false;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< made when first asked for
};

}  // namespace ddprun::runtime::shm
