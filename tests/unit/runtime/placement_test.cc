#include "worker/runtime/comm/placement.h"

#include "tests/support/catch.h"

namespace ddprun::runtime {
namespace {

PlacementFacts facts(int gpus, int local_world, int world, int local_rank = 0) {
  return {.gpu_count = gpus,
          .ranks_per_gpu = gpus == 0 ? 0 : (local_world + gpus - 1) / gpus,
          .local_rank = local_rank,
          .local_world_size = local_world,
          .world_size = world};
}

Placement placed(const PlacementRequest& request, const PlacementFacts& given) {
  return choose_placement(request, given).value();
}

std::string refused(const PlacementRequest& request, const PlacementFacts& given) {
  const auto placement = choose_placement(request, given);
  REQUIRE_FALSE(placement.has_value());
  CHECK(placement.error().code() == ErrorCode::kConfig);
  return placement.error().message();
}

TEST_CASE("auto takes nccl where every worker has a GPU") {
  const Placement placement = placed({}, facts(2, 2, 2, 1));
  CHECK(placement.backend == BackendKind::kNccl);
  CHECK(placement.gpu == 1);
  CHECK(placement.reason == "auto: every worker has a GPU");
}

// A wrapper script gives each rank a CUDA_VISIBLE_DEVICES of its own: everybody sees one GPU, each another.
TEST_CASE("auto takes nccl where every rank sees one GPU of its own") {
  PlacementFacts given = facts(1, 4, 4, 3);
  given.ranks_per_gpu = 1;
  const Placement placement = placed({}, given);
  CHECK(placement.backend == BackendKind::kNccl);
  CHECK(placement.gpu == 0);
  CHECK(gpu_for({}, given) == 0);
}

TEST_CASE("a GPU that is there and not used is not called none") {
  PlacementFacts given = facts(0, 2, 2);
  given.why_no_gpu = "this build has no libddprun_nccl.so";
  CHECK(placed({}, given).reason ==
        "auto: GPUs are not used: this build has no libddprun_nccl.so, all workers on one host");
}

TEST_CASE("auto lets workers share a GPU over gloo") {
  const Placement placement = placed({}, facts(1, 2, 2, 1));
  CHECK(placement.backend == BackendKind::kGloo);
  CHECK(placement.gpu == 0);
  CHECK(placement.reason == "auto: 2 workers share 1 GPU, which nccl cannot");
}

TEST_CASE("auto takes shared memory for CPU workers on one host, with gloo to fall back on") {
  const Placement placement = placed({}, facts(0, 4, 4));
  CHECK(placement.backend == BackendKind::kShm);
  CHECK(placement.gpu == -1);
  CHECK(placement.may_fall_back);
  CHECK(placement.reason == "auto: no GPU, all workers on one host");
  CHECK(placed({.device = "cpu"}, facts(4, 4, 4)).reason ==
        "auto: device cpu was asked for, all workers on one host");
}

TEST_CASE("auto takes gloo across hosts") {
  const Placement placement = placed({}, facts(0, 2, 4));
  CHECK(placement.backend == BackendKind::kGloo);
  CHECK(placement.reason == "auto: no GPU, workers on several hosts");
}

TEST_CASE("auto without an nccl in the build says so") {
  PlacementFacts given = facts(2, 2, 2);
  given.nccl_is_built = false;
  CHECK(placed({}, given).reason == "auto: there are GPUs, but this build has no nccl");
}

TEST_CASE("a backend that was asked for is taken and never replaced") {
  const Placement placement = placed({.backend = "shm"}, facts(2, 2, 2));
  CHECK(placement.backend == BackendKind::kShm);
  CHECK(placement.gpu == -1);
  CHECK_FALSE(placement.may_fall_back);
  CHECK(placed({.backend = "gloo"}, facts(1, 2, 2)).gpu == 0);
  CHECK(placed({.backend = "gloo", .device = "cpu"}, facts(1, 2, 2)).gpu == -1);
  CHECK(placed({.backend = "nccl", .device = "cuda:1"}, facts(2, 2, 2)).gpu == 1);
}

TEST_CASE("what cannot work is refused with its reason") {
  CHECK(refused({.backend = "nccl"}, facts(0, 2, 2)) ==
        "backend nccl: it needs a GPU, and this machine has none that libtorch can use; use backend gloo, "
        "shm or auto");
  CHECK(refused({.backend = "nccl"}, facts(1, 2, 2)) ==
        "backend nccl: 2 workers on this machine and 1 GPU; nccl wants one GPU per worker. Start 1 or use "
        "backend gloo, "
        "where workers can share a GPU");
  CHECK(refused({.backend = "nccl", .device = "cpu"}, facts(1, 1, 1)) ==
        "backend nccl: it serves GPUs, and device \"cpu\" was asked for; use backend gloo or shm");
  CHECK(refused({.backend = "shm"}, facts(0, 2, 4)) ==
        "backend shm: it needs all workers on one host, and 2 of 4 are on this one; use gloo");
  CHECK(refused({.backend = "shm", .device = "cuda"}, facts(1, 1, 1)) ==
        "backend shm: it serves CPU tensors, and a GPU was asked for; use nccl or gloo");
  CHECK(refused({.backend = "mpi"}, facts(0, 1, 1)) ==
        "backend \"mpi\": expected \"auto\", \"nccl\", \"gloo\", \"shm\" or the form \"cpu:gloo,cuda:nccl\"");
  CHECK(refused({.device = "tpu"}, facts(0, 1, 1)) ==
        "device \"tpu\": expected \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"");
  CHECK(refused({.device = "cuda"}, facts(0, 1, 1)) ==
        "device \"cuda\": this machine has no GPU that libtorch can use; use device \"cpu\" or \"auto\"");
  CHECK(refused({.device = "cuda:3"}, facts(2, 1, 1)) ==
        "device \"cuda:3\": this machine has 2 GPUs, numbered from 0");
  PlacementFacts without_nccl = facts(1, 1, 1);
  without_nccl.nccl_is_built = false;
  CHECK(refused({.backend = "nccl"}, without_nccl) ==
        "backend nccl: left out of this build, because libtorch's CUDA and NCCL headers were not there; "
        "install torch "
        "with its CUDA packages and build again, or use backend gloo");
}

TEST_CASE("one backend for each kind of device may be asked for") {
  const Placement placement = placed({.backend = "cpu:gloo,cuda:nccl"}, facts(2, 2, 2, 1));
  CHECK(placement.backend == BackendKind::kNccl);
  CHECK(placement.gpu == 1);
  CHECK(to_string(backends_at(placement)) == "cpu:gloo,cuda:nccl");
  CHECK(to_string(backends_at(placed({.backend = "cuda:nccl,cpu:shm"}, facts(2, 2, 2)))) ==
        "cpu:shm,cuda:nccl");
  CHECK(to_string(backends_at(placed({.backend = "cpu:gloo,cuda:gloo"}, facts(1, 2, 2)))) == "gloo");
  CHECK(to_string(backends_at(placed({.backend = "cuda:nccl"}, facts(2, 2, 2)))) == "nccl");
  const Placement on_cpu = placed({.backend = "cpu:shm"}, facts(2, 2, 2));
  CHECK(on_cpu.backend == BackendKind::kShm);
  CHECK(on_cpu.gpu == -1);
  CHECK(wants_no_gpu({.backend = "cpu:gloo"}));
  CHECK_FALSE(wants_no_gpu({.backend = "cpu:gloo,cuda:nccl"}));
  CHECK(to_string(backends_at(placed({.backend = "gloo"}, facts(1, 2, 2)))) == "gloo");
}

TEST_CASE("backends for devices that cannot work are refused with their reason") {
  const auto why = [](const std::string& backend, int gpus) {
    return refused({.backend = backend}, facts(gpus, 1, 1));
  };
  const std::string form =
      "expected the form \"cpu:gloo,cuda:nccl\", with gloo or shm for the CPU and nccl or gloo for GPUs";
  CHECK(why("cpu:gloo,cuda:", 1) == "backend \"cpu:gloo,cuda:\": " + form);
  CHECK(why("tpu:gloo", 1) == "backend \"tpu:gloo\": " + form);
  CHECK(why("cpu:gloo,nccl", 1) == "backend \"cpu:gloo,nccl\": " + form);
  CHECK(why("cpu:nccl", 1) == "backend \"cpu:nccl\": nccl serves GPUs alone");
  CHECK(why("cuda:shm", 1) == "backend \"cuda:shm\": shm serves the CPU alone");
  CHECK(why("cpu:gloo,cpu:shm", 1) == "backend \"cpu:gloo,cpu:shm\": cpu is named twice");
  CHECK(why("cpu:gloo,cuda:nccl", 0) ==
        "backend \"cpu:gloo,cuda:nccl\": it serves GPUs as well, and this machine has none that libtorch can "
        "use; "
        "use backend gloo or auto");
  CHECK(refused({.backend = "cpu:shm", .device = "cuda"}, facts(1, 1, 1)) ==
        "backend \"cpu:shm\": it serves CPU tensors, and a GPU was asked for");
  CHECK(refused({.backend = "cpu:shm,cuda:nccl"}, facts(4, 2, 4)) ==
        "backend shm: it needs all workers on one host, and 2 of 4 are on this one; use gloo");
}

}  // namespace
}  // namespace ddprun::runtime
