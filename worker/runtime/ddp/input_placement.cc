#include "worker/runtime/ddp/input_placement.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

namespace ddprun::runtime {

at::Tensor InputPlacement::place(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device() == device_) return tensor;
  return at::isAccelerator(device_.type()) ? copy_beside(tensor) : tensor.to(device_);
}

at::Tensor InputPlacement::copy_beside(const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl device(device_.type());
  if (!copies_) copies_ = device.getStreamFromGlobalPool(device_);
  const c10::Stream current = device.getStream(device_);
  at::Tensor copy;
  {
    const c10::StreamGuard guard(*copies_);
    copy = tensor.to(device_);
  }
  c10::Event copied(device_.type());
  copied.record(*copies_);
  copied.block(current);
  copy.record_stream(current);
  return copy;
}

}  // namespace ddprun::runtime
