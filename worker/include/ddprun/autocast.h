#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace ddprun {

/// Runs the forward of this scope in mixed precision, Python's torch.autocast: ATen casts the inputs of each
/// operation to the dtype that suits it. Backward belongs outside; it uses the dtypes of its forward.
///
///     GradScaler scaler;
///     {
///       const AutocastGuard autocast(at::kCUDA);
///       loss = loss_of(ddp.forward(images), labels);
///     }
///     scaler.scale(loss).backward();
///
/// Without a dtype it is the device's own: float16 on CUDA, bfloat16 on the CPU. Guards nest; what was before
/// comes back at the end of the scope. Casts of weights are kept until the outermost one ends.
/// Threads  this thread only: a model that runs on threads of its own (DataParallel) needs a guard on each.
class AutocastGuard {
 public:
  enum class Mode { kEnabled, kDisabled };

  explicit AutocastGuard(c10::DeviceType device, std::optional<c10::ScalarType> dtype = std::nullopt,
                         Mode mode = Mode::kEnabled);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  c10::ScalarType dtype_before_;
};

}  // namespace ddprun
