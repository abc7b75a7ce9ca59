#include "worker/runtime/comm/backends.h"

#include "worker/runtime/comm/backend/gloo.h"
#include "worker/runtime/comm/gpu/plugin.h"
#include "worker/runtime/comm/roll_call/roll_call.h"
#include "worker/runtime/comm/shm/make_backend.h"
#include "worker/runtime/throw_error.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::runtime {
namespace {

using BackendType = c10d::ProcessGroup::BackendType;

BackendType type_of(BackendKind kind) {
  switch (kind) {
    case BackendKind::kNccl:
      return BackendType::NCCL;
    case BackendKind::kGloo:
      return BackendType::GLOO;
    case BackendKind::kShm:
      return BackendType::CUSTOM;
  }
  return BackendType::UNDEFINED;
}

/// gloo's connectFullMesh returns as soon as this rank's own connections stand. A rank whose thread has not woken up
/// yet would find them closed, and fail, if another left the group at once. Who cannot connect waits for nobody.
c10::intrusive_ptr<c10d::Backend> make_gloo_together(const BackendRequest& request) {
  const RollCall roll{.store = *request.store,
                      .prefix = "connected",
                      .rank = request.rank,
                      .size = request.world_size,
                      .timeout = request.timeout};
  c10::intrusive_ptr<c10d::Backend> gloo;
  try {
    gloo = make_gloo_backend(request);
  } catch (const std::exception& exception) {
    const std::string what = exception.what();
    refuse_roll(roll, Error(ErrorCode::kPeerLost,
                            fmt::format("rank {} cannot connect: gloo: {}", request.rank,
                                        what.substr(0, what.find('\n')))));  // what follows is a stack
    throw;
  }
  value_or_throw(call_roll(roll, "", [](const std::vector<std::string>& /*said*/) { return std::string(); }));
  return gloo;
}

c10::intrusive_ptr<c10d::Backend> make_backend(const BackendRequest& request, BackendKind kind, int gpu) {
  switch (kind) {
    case BackendKind::kNccl:
      return make_nccl_backend(request, gpu);
    case BackendKind::kGloo:
      return make_gloo_together(request);
    case BackendKind::kShm:
      break;
  }
  return make_shm_backend({.store = request.store,
                           .rank = request.rank,
                           .world_size = request.world_size,
                           .timeout = request.timeout,
                           .name = request.name});
}

/// Keys of one of two backends, and its name: each counts its collectives from 1. A GPU's has the group's.
BackendRequest under(const BackendRequest& request, const char* prefix, std::string name) {
  BackendRequest narrowed = request;
  narrowed.name = std::move(name);
  narrowed.store = c10::make_intrusive<c10d::PrefixStore>(prefix, request.store);
  return narrowed;
}

}  // namespace

Result<Backends> backends_of(c10d::ProcessGroup& group) {
  Backends backends;
  for (const at::Device& device : group.getDeviceTypes()) {
    const std::string name = group.getBackend(device.type())->getBackendName();
    const std::optional<BackendKind> kind = find_backend_kind(name);
    if (!kind) {
      return Error(
          ErrorCode::kConfig,
          fmt::format("the group's backend is \"{}\", of which no second one can be made; name nccl, "
                      "gloo or shm",
                      name));
    }
    (device.is_cpu() ? backends.cpu : backends.gpu) = kind;
  }
  return backends;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_group(const BackendRequest& request, const Backends& backends,
                                                  int gpu) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.world_size);
  if (gpu >= 0) {
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu));
    // Without these a barrier takes the GPU that the rank's number suggests, and "cuda" is every rank's first.
    group->setBoundDeviceId(device);
    if (c10::impl::hasDeviceGuardImpl(device.type()))
      c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  }
  const bool are_two = backends.cpu && backends.gpu && backends.cpu != backends.gpu;
  if (backends.gpu) {
    const auto backend =
        make_backend(are_two ? under(request, "cuda", request.name) : request, *backends.gpu, gpu);
    group->setBackend(c10::DeviceType::CUDA, type_of(*backends.gpu), backend);
    if (backends.cpu == backends.gpu)
      group->setBackend(c10::DeviceType::CPU, type_of(*backends.gpu), backend);
  }
  if (backends.cpu && backends.cpu != backends.gpu) {
    group->setBackend(
        c10::DeviceType::CPU, type_of(*backends.cpu),
        make_backend(are_two ? under(request, "cpu", request.name + "/cpu") : request, *backends.cpu, gpu));
  }
  group->setDefaultBackend(type_of(backends.gpu ? *backends.gpu : *backends.cpu));
  group->setGroupName(request.name);
  return group;
}

}  // namespace ddprun::runtime
