#include "worker/runtime/comm/agreement.h"

#include "tests/support/catch.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <thread>

namespace ddprun::runtime {
namespace {

using std::chrono::seconds;

Offer gpu(const std::string& host, const std::string& id) {
  return {.host = host, .backend = "auto", .gpu = id};
}
Offer no_gpu(const std::string& host, const std::string& why = "") {
  return {.host = host, .backend = "auto", .why_no_gpu = why};
}

TEST_CASE("masks that give every rank a GPU of its own are a normal case") {
  const auto ground = judge({gpu("a", "00"), gpu("a", "01"), gpu("b", "02")});
  REQUIRE(ground.has_value());
  CHECK(ground->ranks_per_gpu == 1);
  CHECK(judge({gpu("a", "00"), gpu("a", "01"), gpu("a", "00")})->ranks_per_gpu == 2);
  CHECK(judge({no_gpu("a"), no_gpu("a")})->ranks_per_gpu == 0);
}

TEST_CASE("nccl is there when every rank's build has it") {
  Offer without = gpu("b", "01");
  without.nccl_is_built = false;
  CHECK(judge({gpu("a", "00"), gpu("b", "02")})->nccl_is_built);
  CHECK_FALSE(judge({gpu("a", "00"), without})->nccl_is_built);
}

TEST_CASE("a host with fewer GPUs, or with a driver that fails, is named") {
  CHECK(
      judge({gpu("a", "00"), gpu("a", "01"), no_gpu("b", "the driver shows none to this process")})
          .error()
          .message() ==
      "some ranks have a GPU and some have none: rank 0 on a, rank 1 on a with one, rank 2 on b without (the "
      "driver shows none to this process); give every rank one, or ask for device \"cpu\"");
}

TEST_CASE("ranks that ask for different backends are told so") {
  Offer other = no_gpu("b");
  other.backend = "gloo";
  CHECK(judge({no_gpu("a"), no_gpu("a"), other}).error().message() ==
        "the ranks ask for different backends: rank 0 on a for auto, rank 2 on b for gloo; set "
        "DDPRUN_BACKEND, or "
        "what the program asks for, alike on all");
}

TEST_CASE("what one rank cannot do, all ranks hear") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> heard(3);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        Offer offer = no_gpu("a");
        if (rank == 2) offer.refusal = "backend nccl: it needs a GPU";
        heard[static_cast<std::size_t>(rank)] =
            agree_on_ground(*store, rank, 3, offer, seconds(30)).error().message();
      });
    }
  }
  CHECK(heard == std::vector<std::string>(3, "rank 2 on a: backend nccl: it needs a GPU"));
}

TEST_CASE("a rank that does not come is named") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto ground = agree_on_ground(*store, 0, 3, no_gpu("a"), std::chrono::milliseconds(100));
  CHECK(ground.error().code() == ErrorCode::kTimeout);
  CHECK(ground.error().message() ==
        "2 of 3 ranks did not come within 0.1 s: 1, 2; look for their last output");
}

TEST_CASE("ranks that agree learn the ground they share") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<int> ranks_per_gpu(2);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        ranks_per_gpu[static_cast<std::size_t>(rank)] =
            agree_on_ground(*store, rank, 2, gpu("a", "00"), seconds(30)).value().ranks_per_gpu;
      });
    }
  }
  CHECK(ranks_per_gpu == std::vector<int>{2, 2});
}

}  // namespace
}  // namespace ddprun::runtime
