// What tests/interop/collectives cannot ask Python: refusals, asynchronous forms, and who is missing.
#include "tests/integration/groups/worlds.h"
#include <ddprun/collectives.h>

#include <torch/types.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace ddprun;
using ddprun::testing::in_world;
using ddprun::testing::refusal;
using ddprun::testing::require;
using ddprun::testing::require_equal;
using namespace std::chrono_literals;

namespace {

at::Tensor numbers(std::int64_t count, double value) { return torch::full({count}, value); }

/// Makes several messages one call, as nccl does, and can send none.
struct FailingBackend final : c10d::Backend {
  FailingBackend() : Backend(0, 2) {}

  [[nodiscard]] bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { ++begun; }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    ++ended;
    return {};
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>&, int, int) override {
    throw std::runtime_error("no way there");
  }

  int begun = 0;
  int ended = 0;
};

}  // namespace

TEST_CASE("the tensor forms and the coalesced ones have asynchronous forms") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 2, [](const Group& world) {
      const double mine = world.rank() + 1;
      const at::Tensor gathered = torch::empty({2, 3});
      async_all_gather_into_tensor(world, gathered, numbers(3, mine)).wait();
      require(gathered[1][2].item<double>() == 2, "all_gather_into_tensor");
      const at::Tensor part = torch::empty({2});
      async_reduce_scatter_tensor(world, part, numbers(4, mine), ReduceOp::kAverage).wait();
      require(part[1].item<double>() == 1.5, "reduce_scatter_tensor");
      const std::vector<at::Tensor> two = {numbers(3, mine), torch::full({2, 2}, 10 * mine)};
      async_all_reduce_coalesced(world, two, ReduceOp::premul_sum(2)).wait();
      require(two[0][0].item<double>() == 6 && two[1][1][1].item<double>() == 60, "all_reduce_coalesced");
      const std::vector<at::Tensor> outs = {torch::empty({2}), torch::empty({4, 1})};
      async_all_gather_into_tensor_coalesced(world, outs, {numbers(1, mine), torch::full({2, 1}, mine)})
          .wait();
      require(outs[0][1].item<double>() == 2 && outs[1][3].item<double>() == 2, "gathered");
      const std::vector<at::Tensor> parts = {torch::empty({1}), torch::empty({2})};
      async_reduce_scatter_tensor_coalesced(world, parts, {numbers(2, mine), numbers(4, mine)}).wait();
      require(parts[0].item<double>() == 3 && parts[1][1].item<double>() == 3, "reduced and scattered");
    }));
  }
}

TEST_CASE("what the forms cannot take is refused before anything is sent") {
  CHECK(in_world("shm", 2, [](const Group& world) {
    const auto refuses = [](const std::function<void()>& call, const std::string& words) {
      require_equal(refusal(call), "config: " + words);
    };
    refuses([&] { all_gather_into_tensor(world, numbers(5, 0), numbers(2, 0)); },
            "all_gather_into_tensor: a tensor of 5 Float cannot be the 2 parts of 2 Float of the 2 ranks");
    refuses([&] { reduce_scatter_tensor(world, numbers(2, 0), numbers(4, 0).to(torch::kLong)); },
            "reduce_scatter_tensor: a tensor of 4 Long cannot be the 2 parts of 2 Float of the 2 ranks");
    refuses(
        [&] {
          all_gather_into_tensor(world, torch::empty({2, 4}).t(), numbers(4, 0));
        },
        "all_gather_into_tensor: a tensor is not dense and contiguous; pass tensor.contiguous()");
    refuses(
        [&] {
          all_reduce_coalesced(world, {numbers(1, 0), numbers(1, 0).to(torch::kLong)});
        },
        "all_reduce_coalesced: Float on cpu and Long on cpu in one call; call it once for each dtype and "
        "device");
    refuses([&] { all_reduce_coalesced(world, {}); }, "all_reduce_coalesced: no tensor is given");
    refuses(
        [&] { all_reduce(world, numbers(1, 0).to(torch::kInt), ReduceOp::premul_sum(2)); },
        "premul_sum: it multiplies floating point numbers, and the tensor is Int; multiply it yourself and "
        "sum");
    refuses([&] { (void)batch_isend_irecv(world, {}); }, "batch_isend_irecv: no message is given");
    refuses([&] { (void)batch_isend_irecv(world, {P2POp::isend(numbers(1, 0), 2)}); },
            "batch_isend_irecv: rank 2 is outside a group of 2");
    const int self = world.rank();
    refuses([&] { (void)batch_isend_irecv(world, {P2POp::irecv(numbers(1, 0), self)}); },
            "batch_isend_irecv: rank " + std::to_string(self) + " sends to itself");
  }));
}

TEST_CASE("premul_sum leaves what it only reads as it was") {
  CHECK(in_world("shm", 2, [](const Group& world) {
    const at::Tensor whole = numbers(4, 1);
    const at::Tensor part = torch::empty({2});
    reduce_scatter_tensor(world, part, whole, ReduceOp::premul_sum(world.rank() == 0 ? 2 : 5));
    require(whole.eq(1).all().item<bool>() && part.eq(7).all().item<bool>(), "each rank's own factor");
  }));
}

TEST_CASE("monitored_barrier names those who are missing, to every rank, over any backend") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 4, [](const Group& world) {
      for (int i = 0; i < 4; ++i) monitored_barrier(world);
      const bool is_late = world.rank() == 0 || world.rank() == 2;
      const auto told = torch::zeros({1});
      if (is_late) {
        receive(world, told, 1);
        receive(world, told, 3);
      }
      require_equal(
          refusal([&] { monitored_barrier(world, 2s); }),
          "timeout: monitored_barrier: 2 of 4 ranks did not come within 2.0 s: 0, 2; look for their "
          "last output");
      for (const int late : {0, 2}) {
        if (!is_late) send(world, told, late);
      }
      barrier(world);
      monitored_barrier(world);
    }));
  }
}

TEST_CASE("a rank that comes late to monitored_barriers that failed hears what the others heard") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    const std::string expected =
        "timeout: monitored_barrier: 1 of 3 ranks did not come within 2.0 s: 2; look for their last output";
    const Group punctual = new_group(world, {0, 1});
    const auto told = torch::zeros({1});
    if (world.rank() == 2) receive(world, told, 0);
    for (int i = 0; i < 3; ++i) {
      if (punctual.is_member()) barrier(punctual);
      require_equal(refusal([&] { monitored_barrier(world, 2s); }), expected);
    }
    if (world.rank() == 0) send(world, told, 2);
    monitored_barrier(world, 60s);
    monitored_barrier(world);
    barrier(world);
    const auto store = world.process_group()->getStore();
    require(!store->check({"monitored_barrier/1/answer"}) && !store->check({"monitored_barrier/4/0"}),
            "what nobody reads any more is gone");
    require(store->check({"monitored_barrier/5/0"}), "and the last one is there");
  }));
}

TEST_CASE("a batch with a message that is refused sends none of them") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 2, [](const Group& world) {
      const at::Tensor into = numbers(4, 0);
      if (world.rank() == 0) {
        const at::Tensor transposed = torch::ones({2, 4}).t();
        require_equal(
            refusal([&] {
              (void)batch_isend_irecv(world, {P2POp::isend(numbers(4, 7), 1), P2POp::isend(transposed, 1)});
            }),
            "config: batch_isend_irecv: a tensor is not dense and contiguous; pass "
            "tensor.contiguous()");
        send(world, numbers(4, 9), 1);
      } else {
        receive(world, into, 0);
        require(into.eq(9).all().item<bool>(), "the message after the batch is the first");
      }
    }));
  }
}

TEST_CASE("a group call of which a message fails is ended") {
  CHECK(in_world("gloo", 1, [](const Group& world) {
    const auto backend = c10::make_intrusive<FailingBackend>();
    const auto group = c10::make_intrusive<c10d::ProcessGroup>(world.process_group()->getStore(), 0, 2);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    try {
      (void)batch_isend_irecv(group, {P2POp::isend(numbers(4, 7), 1)});
      require(false, "the backend refuses");
    } catch (const std::exception& error) {
      require(std::string(error.what()).find("no way there") != std::string::npos, error.what());
    }
    require(backend->begun == 1 && backend->ended == 1, "it was begun and ended once");
  }));
}

TEST_CASE("bytes of no length travel as well") {
  for (const std::string backend : {"gloo", "shm"}) {
    CHECK(in_world(backend, 3, [](const Group& world) {
      using Strings = std::vector<std::string>;
      require(all_gather_bytes(world, "") == Strings(3), "all_gather_bytes");
      require(gather_bytes(world, "", 2) == Strings(world.rank() == 2 ? 3 : 0), "gather_bytes");
      require(scatter_bytes(world, Strings(3), 1).empty(), "scatter_bytes");
      require(broadcast_bytes_list(world, {}, 1).empty(), "a list of none");
      require_equal(refusal([&] { (void)scatter_bytes(world, {}, 3); }),
                    "config: scatter_bytes: rank 3 is outside a group of 3");
    }));
  }
}
