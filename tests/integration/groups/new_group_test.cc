#include "tests/integration/groups/worlds.h"
#include <ddprun/collectives.h>
#include <ddprun/distributed_data_parallel.h>

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <filesystem>
#include <thread>

using namespace ddprun;
using ddprun::testing::in_world;
using ddprun::testing::refusal;
using ddprun::testing::require;
using ddprun::testing::require_equal;

namespace {

using Ranks = std::vector<int>;

double sum_of_ranks(const Group& group, double mine) {
  const auto tensor = torch::full({5}, mine);
  all_reduce(group, tensor);
  return tensor[4].item<double>();
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("a new group reduces over its members and leaves the others alone") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 4, [](const Group& world) {
      const Group group = new_group(world, {3, 0, 1});
      require(group.ranks() == Ranks{0, 1, 3} && group.size() == 3, "ranks follow their order in the world");
      require(group.is_member() == (world.rank() != 2), "rank 2 is no member");
      require(group.rank() == std::array{0, 1, -1, 2}[static_cast<std::size_t>(world.rank())], "rank");
      require(group.global_rank(2) == 3 && group.group_rank(3) == 2, "translation");
      if (group.is_member()) {
        require(sum_of_ranks(group, world.rank()) == 4, "sum of the members");
      } else {
        require_equal(refusal([&] { sum_of_ranks(group, 1); }),
                      "config: rank 2 is not in the group of [0, 1, 3]: only its members may use it; ask "
                      "is_member()");
      }
      require(sum_of_ranks(world, world.rank()) == 6, "the world goes on");
    }));
  }
}

TEST_CASE("a group may have another backend than its parent") {
  for (const auto& [parent, child] : {std::pair("gloo", "shm"), {"shm", "gloo"}}) {
    CHECK(in_world(parent, 3, [&, name = std::string(child)](const Group& world) {
      const Group group = new_group(world, {}, {.backend = name, .timeout = std::chrono::seconds(50)});
      const auto backend = group.process_group()->getBackend(c10::DeviceType::CPU);
      require_equal(backend->getBackendName(), name);
      require(backend->getBackendOptions()->timeout == std::chrono::seconds(50), "the timeout");
      require(sum_of_ranks(group, world.rank()) == 3, "sum");
    }));
  }
}

TEST_CASE("split_group cuts a group into others, and these again") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 4, [](const Group& world) {
      const Group half = split_group(world, {{0, 2}, {3, 1}});
      require(half.ranks() == (world.rank() % 2 == 0 ? Ranks{0, 2} : Ranks{1, 3}), "halves");
      require(sum_of_ranks(half, world.rank()) == (world.rank() % 2 == 0 ? 2 : 4), "sum of a half");
      const Group alone = split_group(half, {{1}});
      require(alone.is_member() == (half.rank() == 1), "only the second rank of each half");
      require(alone.ranks() == Ranks{half.global_rank(1)}, "named as in the world");
      if (alone.is_member()) require(sum_of_ranks(alone, world.rank()) == world.rank(), "a sum of one");
    }));
  }
}

TEST_CASE("several groups are used at once, from several threads") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 3, [](const Group& world) {
      const Group a = new_group(world);
      const Group b = new_group(world, {0, 2});
      // In another order on every rank: groups do not wait for each other.
      const auto in_a = [&] { return sum_of_ranks(a, 1) == 3; };
      const auto in_b = [&] { return !b.is_member() || sum_of_ranks(b, 1) == 2; };
      std::atomic<int> good{0};
      {
        const std::jthread first([&] {
          for (int i = 0; i < 200; ++i) good += in_a() ? 1 : 0;
        });
        const std::jthread second([&] {
          for (int i = 0; i < 200; ++i) good += in_b() ? 1 : 0;
        });
      }
      require(good == 400, "every sum is right");
      Pending in_flight = async_all_reduce(a, torch::ones({1000}));
      require(sum_of_ranks(world, 1) == 3, "the world beside a collective in flight");
      in_flight.wait();
    }));
  }
}

TEST_CASE("each group of a world can train a replica of its own") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 4, [](const Group& world) {
      const Group pair = split_group(world, {{0, 1}, {2, 3}});
      torch::nn::Linear model(1, 1);
      DistributedDataParallel ddp(model, pair.process_group());
      ddp(torch::full({1, 1}, world.rank() + 1.0)).sum().backward();
      require(model->weight.grad().item<float>() == (world.rank() < 2 ? 1.5F : 3.5F), "mean over the pair");
    }));
  }
}

TEST_CASE("a group that has gone leaves no descriptor and no shared memory") {
  CHECK(in_world("shm", 2, [](const Group& world) {
    { const Group first = new_group(world); }
    barrier(world);
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 5; ++i) {
      const Group group = new_group(world);
      require(sum_of_ranks(group, 1) == 2, "sum");
    }
    barrier(world);
    require(open_descriptors() == before, "as many descriptors as before");
  }));
}

TEST_CASE("ranks that make no group are refused, on every rank with the same words") {
  const auto refused = [](const Group& world, std::vector<Ranks> lists, const std::string& words) {
    require_equal(refusal([&] { (void)split_group(world, std::move(lists)); }),
                  "config: split_group: " + words);
  };
  CHECK(in_world("gloo", 3, [&](const Group& world) {
    refused(world, {{0, 1}, {1, 2}}, "rank 1 is named twice in [0, 1] [1, 2]");
    refused(world, {{0, 3}}, "rank 3 is outside the parent group of 3 (ranks 0 to 2)");
    refused(world, {{0}, {}}, "a group without ranks is asked for");
    refused(world, {}, "no list of ranks is given");
    require_equal(refusal([&] {
                    (void)new_group(world, {0, -1});
                  }),
                  "config: new_group: rank -1 is outside the parent group of 3 (ranks 0 to 2)");
    require_equal(refusal([&] {
                    (void)new_group(world, {2, 2});
                  }),
                  "config: new_group: rank 2 is named twice in [2, 2]");
    require_equal(refusal([&] { (void)new_group(world, {}, {.backend = "mpi"}); }),
                  "config: new_group: backend \"mpi\": expected \"nccl\", \"gloo\", \"shm\" or the form "
                  "\"cpu:gloo,cuda:nccl\"");
    require_equal(
        refusal([&] { (void)new_group(world, {}, {.backend = "nccl"}); }),
        "config: new_group: backend \"nccl\": it needs a GPU, and this rank was given none by init; use "
        "gloo or shm");
    require(sum_of_ranks(new_group(world), 1) == 3, "the parent is as good as before");
  }));
}

TEST_CASE("ranks that ask for different groups hear it, and nobody waits") {
  CHECK(in_world("shm", 3, [](const Group& world) {
    require_equal(
        refusal([&] {
          (void)new_group(world, world.rank() == 2 ? Ranks{0, 2} : Ranks{0, 1});
        }),
        "config: new_group: rank 0 asked for [0, 1] over shm, rank 2 for [0, 2] over shm; every rank "
        "of the parent group gives the same arguments, in the same order of calls");
    require_equal(refusal([&] {
                    (void)new_group(world, world.rank() == 1 ? Ranks{0, 7} : Ranks{0, 1});
                  }),
                  "config: new_group: rank 1: rank 7 is outside the parent group of 3 (ranks 0 to 2)");
  }));
}

TEST_CASE("a rank that does not come to a new group is named to the others") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    // Rank 1 comes when the others have told it that they were refused.
    const auto late = torch::zeros({1});
    if (world.rank() == 1) {
      receive(world, late, 0);
      receive(world, late, 2);
    }
    require_equal(
        refusal([&] { (void)new_group(world, {}, {.timeout = std::chrono::seconds(2)}); }),
        "timeout: new_group: 1 of 3 ranks did not come within 2.0 s: 1; look for their last output");
    if (world.rank() != 1) send(world, late, 1);
  }));
}

TEST_CASE("a group may have a backend for each kind of device") {
  CHECK(ddprun::testing::in_processes(2, [](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    const runtime::BackendRequest request{
        .store = store, .rank = rank, .world_size = 2, .timeout = std::chrono::seconds(60)};
    const Group world(
        runtime::make_group(request, runtime::parse_backends("cpu:shm,cuda:gloo", true).value(), 0));
    const auto name = [](const Group& group, c10::DeviceType device) {
      return group.process_group()->getBackend(device)->getBackendName();
    };
    for (const Group& group :
         {world, new_group(world), new_group(world, {}, {.backend = "cuda:gloo,cpu:gloo"})}) {
      require(name(group, c10::DeviceType::CUDA) == "gloo", "GPUs");
      require(sum_of_ranks(group, 1) == 2, "sum on the CPU");
    }
    require(name(new_group(world), c10::DeviceType::CPU) == "shm", "CPU, also of a group made from it");
  }));
}

TEST_CASE("a rank that cannot connect says why at once, and does not wait for those who wait for it") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    if (world.rank() == 1) ::setenv("GLOO_SOCKET_IFNAME", "nosuchcard", 1);
    const auto begin = std::chrono::steady_clock::now();
    std::string why;
    try {
      (void)new_group(world, {}, {.timeout = std::chrono::seconds(8)});
    } catch (const std::exception& exception) {
      why = exception.what();
    }
    ::unsetenv("GLOO_SOCKET_IFNAME");
    require(!why.empty(), "no group without it");
    if (world.rank() != 1) return;
    require(why.find("nosuchcard") != std::string::npos, why);
    require(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5), "it waited");
  }));
}

TEST_CASE("whoever leaves a new group at once does not fail the one that is still connecting") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    for (int round = 0; round < 100; ++round) const Group leaves = new_group(world, {1, 2});
  }));
}
