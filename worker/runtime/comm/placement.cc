#include "worker/runtime/comm/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace ddprun::runtime {
namespace {

Error refuse(std::string message) { return {ErrorCode::kConfig, std::move(message)}; }

struct DeviceWish {
  bool cpu = false;
  bool gpu = false;
  std::optional<int> index;
};

Result<DeviceWish> parse_device(const std::string& text) {
  if (text == "auto") return DeviceWish{};
  if (text == "cpu") return DeviceWish{.cpu = true};
  if (text == "cuda") return DeviceWish{.gpu = true};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    int index = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (parsed.ec == std::errc{} && parsed.ptr == end && index >= 0)
      return DeviceWish{.gpu = true, .index = index};
  }
  return refuse(fmt::format("device \"{}\": expected \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"", text));
}

/// Several launchers may have started workers for one job on this machine, and each counts its own.
int workers_here(const PlacementFacts& facts) {
  return std::max(facts.local_world_size, facts.ranks_per_gpu);
}

std::string gpus(int count) { return count == 1 ? "1 GPU" : fmt::format("{} GPUs", count); }

bool on_one_host(const PlacementFacts& facts) { return facts.local_world_size == facts.world_size; }

// Ranks share cards when there are more of them: gloo can, nccl cannot.
int gpu_of(const DeviceWish& wish, const PlacementFacts& facts) {
  return wish.index ? *wish.index : facts.local_rank % facts.gpu_count;
}

Result<Placement> place_nccl(const DeviceWish& wish, const PlacementFacts& facts) {
  if (!facts.nccl_is_built) {
    return refuse(
        "backend nccl: left out of this build, because libtorch's CUDA and NCCL headers were not there; "
        "install "
        "torch with its CUDA packages and build again, or use backend gloo");
  }
  if (facts.gpu_count == 0) {
    return refuse(
        "backend nccl: it needs a GPU, and this machine has none that libtorch can use; use backend gloo, "
        "shm "
        "or auto");
  }
  if (wish.cpu)
    return refuse("backend nccl: it serves GPUs, and device \"cpu\" was asked for; use backend gloo or shm");
  if (facts.ranks_per_gpu > 1) {
    return refuse(fmt::format(
        "backend nccl: {} workers on this machine and {}; nccl wants one GPU per worker. Start {} or "
        "use backend gloo, where workers can share a GPU",
        workers_here(facts), gpus(facts.gpu_count), facts.gpu_count));
  }
  return Placement{.backend = BackendKind::kNccl, .gpu = gpu_of(wish, facts), .reason = "asked for"};
}

Result<Placement> place_gloo(const DeviceWish& wish, const PlacementFacts& facts) {
  const bool use_gpu = !wish.cpu && facts.gpu_count > 0;
  return Placement{
      .backend = BackendKind::kGloo, .gpu = use_gpu ? gpu_of(wish, facts) : -1, .reason = "asked for"};
}

Result<Placement> place_shm(const DeviceWish& wish, const PlacementFacts& facts) {
  if (!on_one_host(facts)) {
    return refuse(
        fmt::format("backend shm: it needs all workers on one host, and {} of {} are on this one; use gloo",
                    facts.local_world_size, facts.world_size));
  }
  if (wish.gpu)
    return refuse("backend shm: it serves CPU tensors, and a GPU was asked for; use nccl or gloo");
  return Placement{.backend = BackendKind::kShm, .gpu = -1, .reason = "asked for"};
}

/// A backend for each kind of device.
Result<Placement> place_devices(const std::string& text, const DeviceWish& wish,
                                const PlacementFacts& facts) {
  const Result<Backends> backends = parse_devices(text);
  if (!backends) return backends.error();
  if (!backends->gpu && wish.gpu)
    return refuse(fmt::format("backend \"{}\": it serves CPU tensors, and a GPU was asked for", text));
  if (backends->cpu == BackendKind::kShm) {
    const Result<Placement> on_cpu = place_shm({.cpu = true}, facts);
    if (!on_cpu || !backends->gpu) return on_cpu;
  }
  if (!backends->gpu) return place_gloo({.cpu = true}, facts);
  if (facts.gpu_count == 0 || wish.cpu) {
    return refuse(
        fmt::format("backend \"{}\": it serves GPUs as well, and {}; use backend {} or auto", text,
                    wish.cpu ? "device \"cpu\" was asked for" : "this machine has none that libtorch can use",
                    backends->cpu ? to_string(*backends->cpu) : "gloo"));
  }
  Result<Placement> placement =
      backends->gpu == BackendKind::kNccl ? place_nccl(wish, facts) : place_gloo(wish, facts);
  if (placement && backends->cpu != backends->gpu) placement->cpu_backend = backends->cpu;
  return placement;
}

Placement place_auto(const DeviceWish& wish, const PlacementFacts& facts) {
  if (!wish.cpu && facts.gpu_count > 0) {
    const int gpu = gpu_of(wish, facts);
    if (!facts.nccl_is_built) {
      return {.backend = BackendKind::kGloo,
              .gpu = gpu,
              .reason = "auto: there are GPUs, but this build has no nccl"};
    }
    if (facts.ranks_per_gpu > 1) {
      return {.backend = BackendKind::kGloo,
              .gpu = gpu,
              .reason = fmt::format("auto: {} workers share {}, which nccl cannot", workers_here(facts),
                                    gpus(facts.gpu_count))};
    }
    return {.backend = BackendKind::kNccl, .gpu = gpu, .reason = "auto: every worker has a GPU"};
  }
  std::string device = wish.cpu ? "device cpu was asked for" : "no GPU";
  if (!wish.cpu && !facts.why_no_gpu.empty()) device = fmt::format("GPUs are not used: {}", facts.why_no_gpu);
  if (on_one_host(facts)) {
    return {.backend = BackendKind::kShm,
            .gpu = -1,
            .reason = fmt::format("auto: {}, all workers on one host", device),
            .may_fall_back = true};
  }
  return {.backend = BackendKind::kGloo,
          .gpu = -1,
          .reason = fmt::format("auto: {}, workers on several hosts", device)};
}

}  // namespace

Backends backends_at(const Placement& placement) {
  Backends backends = served_by(placement.backend, placement.gpu >= 0);
  if (placement.cpu_backend) backends.cpu = placement.cpu_backend;
  return backends;
}

bool wants_no_gpu(const PlacementRequest& request) {
  const bool is_for_cpu =
      names_devices(request.backend) && request.backend.find("cuda:") == std::string::npos;
  return request.device == "cpu" || request.backend == "shm" || is_for_cpu;
}

int gpu_for(const PlacementRequest& request, const PlacementFacts& facts) {
  const Result<DeviceWish> wish = parse_device(request.device);
  if (!wish || wants_no_gpu(request) || facts.gpu_count == 0) return -1;
  return gpu_of(*wish, facts);
}

Result<Placement> choose_placement(const PlacementRequest& request, const PlacementFacts& facts) {
  const Result<DeviceWish> wish = parse_device(request.device);
  if (!wish) return wish.error();
  if (wish->gpu && facts.gpu_count == 0) {
    return refuse(fmt::format(
        "device \"{}\": this machine has no GPU that libtorch can use; use device \"cpu\" or \"auto\"",
        request.device));
  }
  if (wish->index && *wish->index >= facts.gpu_count) {
    return refuse(fmt::format("device \"{}\": this machine has {}, numbered from 0", request.device,
                              gpus(facts.gpu_count)));
  }
  if (request.backend == "nccl") return place_nccl(*wish, facts);
  if (request.backend == "gloo") return place_gloo(*wish, facts);
  if (request.backend == "shm") return place_shm(*wish, facts);
  if (request.backend == "auto") return place_auto(*wish, facts);
  if (names_devices(request.backend)) return place_devices(request.backend, *wish, facts);
  return refuse(fmt::format(
      "backend \"{}\": expected \"auto\", \"nccl\", \"gloo\", \"shm\" or the form \"cpu:gloo,cuda:nccl\"",
      request.backend));
}

}  // namespace ddprun::runtime
