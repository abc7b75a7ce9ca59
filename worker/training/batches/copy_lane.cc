#include "worker/training/batches/copy_lane.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace ddprun::training {
namespace {

/// Knows streams and events by libtorch's names only, which need no CUDA.
class CopyStream final : public CopyLane {
 public:
  explicit CopyStream(const at::Device& device)
      : device_(device),
        guard_(device.type()),
        stream_(guard_.getStreamFromGlobalPool(device)),
        copied_(device.type()) {}

  Batch begin(const Batch& batch, const Finish& finish) override {
    const c10::StreamGuard on_stream(stream_);
    Batch moved = to_device(batch, device_);
    if (finish) moved = finish(std::move(moved));
    copied_.record(stream_);
    return moved;
  }

  void join(const Batch& batch) override {
    const c10::Stream computing = guard_.getStream(device_);
    copied_.block(computing);
    // Its memory is this stream's, which would take it again when the host has no more use for the batch.
    for (const at::Tensor& tensor : batch.tensors)
      guard_.recordDataPtrOnStream(tensor.storage().data_ptr(), computing);
  }

 private:
  at::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
  c10::Event copied_;
};

}  // namespace

Batch to_device(const Batch& batch, const at::Device& device) {
  Batch moved{{}, batch.samples};
  for (const at::Tensor& tensor : batch.tensors)
    moved.tensors.push_back(tensor.to(device, /*non_blocking=*/true));
  return moved;
}

std::unique_ptr<CopyLane> make_copy_lane(const at::Device& device) {
  return device.is_cpu() ? nullptr : make_copy_stream(device);
}

std::unique_ptr<CopyLane> make_copy_stream(const at::Device& device) {
  return std::make_unique<CopyStream>(device);
}

}  // namespace ddprun::training
