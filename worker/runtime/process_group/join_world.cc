#include "worker/runtime/process_group/join_world.h"

#include "worker/runtime/gpu/plugin.h"
#include "worker/runtime/process_group/gloo.h"
#include "worker/runtime/shm/make_backend.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/torch.h>

namespace ddprun::runtime {
namespace {

// c10::Error's what() carries a C++ stack; a user needs its first line.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

c10::intrusive_ptr<c10d::Backend> make_backend(const BackendRequest& request, Placement& placement) {
  switch (placement.backend) {
    case BackendKind::kNccl:
      return make_nccl_backend(request, placement.gpu);
    case BackendKind::kGloo:
      return make_gloo_backend(request);
    case BackendKind::kShm:
      break;
  }
  try {
    return make_shm_backend({.store = request.store,
                             .rank = request.rank,
                             .world_size = request.world_size,
                             .timeout = request.timeout});
  } catch (const Exception& error) {
    // Every rank gets the same verdict, so all of them turn to gloo together. Whoever named shm wants to know
    // instead.
    if (error.code() != ErrorCode::kUnavailable || !placement.may_fall_back) throw;
    placement.backend = BackendKind::kGloo;
    placement.reason += fmt::format("; not shm: {}", error.what());
    return make_gloo_backend(request);
  }
}

c10d::ProcessGroup::BackendType type_of(BackendKind kind) {
  switch (kind) {
    case BackendKind::kNccl:
      return c10d::ProcessGroup::BackendType::NCCL;
    case BackendKind::kGloo:
      return c10d::ProcessGroup::BackendType::GLOO;
    case BackendKind::kShm:
      return c10d::ProcessGroup::BackendType::CUSTOM;
  }
  return c10d::ProcessGroup::BackendType::UNDEFINED;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> connect_store(const WorkerEnv& env, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = env.master_port.value();
  options.isServer = !env.use_agent_store && env.rank.value() == 0;
  options.numWorkers = static_cast<std::size_t>(env.world_size.value());
  options.waitWorkers = false;
  options.timeout = timeout;
  options.multiTenant = true;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(env.master_addr, options);
    // torchrun keeps its store over restarts; ddprun serves a fresh one. A prefix makes both safe.
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("ddprun/{}", env.restart_count),
                                                  std::move(store));
  } catch (const std::exception& error) {
    throw Exception(
        ErrorCode::kUnavailable,
        fmt::format("init: rank {} cannot reach the store at {}:{}: {}; is the launcher that set MASTER_ADDR "
                    "and MASTER_PORT still running?",
                    env.rank, env.master_addr, env.master_port, first_line(error)));
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const WorkerEnv& env, Placement& placement,
                                                          std::chrono::milliseconds timeout) {
  const BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("world", store),
                               .rank = env.rank.value(),
                               .world_size = env.world_size.value(),
                               .one_host = env.local_world_size.value() == env.world_size.value(),
                               .timeout = timeout};
  c10::intrusive_ptr<c10d::Backend> backend;
  try {
    backend = make_backend(request, placement);
  } catch (const std::exception& error) {
    throw Exception(ErrorCode::kUnavailable,
                    fmt::format("init: rank {} of {} cannot make its {} process group within {:.1f} s: {}",
                                env.rank, env.world_size, to_string(placement.backend),
                                std::chrono::duration<double>(timeout).count(), first_line(error)));
  }
  auto group = c10::make_intrusive<c10d::ProcessGroup>(request.store, request.rank, request.world_size);
  const auto type = type_of(placement.backend);
  // Without it a barrier takes the GPU that the rank's number suggests.
  if (placement.gpu >= 0) {
    group->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(placement.gpu)));
  }
  group->setBackend(placement.gpu >= 0 ? c10::DeviceType::CUDA : c10::DeviceType::CPU, type, backend);
  // gloo serves both kinds of tensor at once.
  if (placement.gpu >= 0 && placement.backend == BackendKind::kGloo) {
    group->setBackend(c10::DeviceType::CPU, type, backend);
  }
  group->setDefaultBackend(type);
  group->setGroupName("world");
  return group;
}

}  // namespace ddprun::runtime
