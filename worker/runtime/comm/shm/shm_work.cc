#include "worker/runtime/comm/shm/shm_work.h"

#include "worker/runtime/comm/backend/progress.h"
#include <ddprun/exception.h>

namespace ddprun::runtime::shm {

ShmWork::ShmWork(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> outputs,
                 std::vector<at::Tensor> inputs)
    : Work(rank, type), outputs_(std::move(outputs)), inputs_(std::move(inputs)), sequence_(sequence) {}

void ShmWork::set_outputs(std::vector<at::Tensor> outputs) {
  const std::lock_guard lock(future_mutex_);
  outputs_ = std::move(outputs);
}

void ShmWork::complete(const Result<void>& outcome, int source_rank) {
  source_rank_ = source_rank;
  Progress::instance().leave(progress_id_);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(future_mutex_);
    if (!outcome)
      error_ = std::make_exception_ptr(Exception(outcome.error().code(), outcome.error().message()));
    is_over_ = true;
    future = future_;
  }
  finish(error_);
  if (future) settle(*future);
}

c10::intrusive_ptr<c10::ivalue::Future> ShmWork::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    if (is_over_) settle(*future_);
  }
  return future_;
}

void ShmWork::settle(c10::ivalue::Future& future) const {
  if (error_)
    future.setError(error_);
  else
    future.markCompleted(c10::IValue(outputs_));
}

}  // namespace ddprun::runtime::shm
