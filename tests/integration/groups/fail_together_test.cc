#include "tests/integration/groups/worlds.h"
#include <ddprun/fail_together.h>
#include <ddprun/rank_zero.h>
#include <ddprun/seed.h>
#include <ddprun/sharded_evaluation.h>

#include <torch/types.h>

#include <sstream>

using namespace ddprun;
using ddprun::testing::in_world;
using ddprun::testing::refusal;
using ddprun::testing::require;
using ddprun::testing::require_equal;

TEST_CASE("what fails on some ranks fails on all, and those where it did not name the lowest that did") {
  CHECK(in_world("shm", 4, [](const Group& world) {
    const auto work = [&] {
      if (world.rank() == 2) throw Exception(ErrorCode::kNotFound, "no file here");
      if (world.rank() == 3) throw std::runtime_error("bad luck");
    };
    if (world.rank() == 3) {
      try {
        fail_together(world, work);
        require(false, "nothing was thrown");
      } catch (const Exception&) {
        require(false, "rank 3 has an exception of its own");
      } catch (const std::runtime_error& error) {
        require_equal(error.what(), "bad luck");
      }
    } else {
      require_equal(refusal([&] { fail_together(world, work); }),
                    world.rank() == 2
                        ? "not found: no file here"
                        : "peer lost: rank 2 failed first: no file here; this rank ended because of it");
    }
    int calls = 0;
    fail_together(world, [&] { ++calls; });
    require(calls == 1, "where nobody fails, all go on");
  }));
}

TEST_CASE("a rank whose work fails says so, also when the others cannot be asked") {
  CHECK(in_world("shm", 2, [](const Group& world) {
    const Group group = new_group(world);
    if (world.rank() == 0) {
      const auto abort = [&] {
        group.process_group()->getDefaultBackend()->abort();
      };  // all ends with "peer lost"
      require_equal(refusal([&] {
                      fail_together(group, [&] {
                        abort();
                        throw Exception(ErrorCode::kNotFound, "no file here");
                      });
                    }),
                    "not found: no file here");
      require(refusal([&] { fail_together(group, abort); }).starts_with("peer lost: "),
              "nothing else failed");
    }
  }));
}

TEST_CASE("agree_on_error tells whose error it is") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    require(!agree_on_error(world, std::nullopt), "nobody has one");
    const auto mine =
        world.rank() == 0 ? std::nullopt : std::optional(Exception(ErrorCode::kOs, "the disk is full"));
    const auto shared = agree_on_error(world, mine);
    require(shared && shared->rank == 1 && shared->code == ErrorCode::kOs, "rank 1 is the lowest");
    require_equal(shared->message, "the disk is full");
    require(shared->is_mine == (world.rank() == 1), "one rank speaks");
  }));
}

TEST_CASE("an evaluation counts every sample once, also where ranks have none") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    for (const std::int64_t count : {0, 2, 10}) {
      double sum = 0;
      const std::vector<std::int64_t> shard = evaluation_shard(count, world);
      for (const std::int64_t sample : shard) sum += static_cast<double>(sample);
      const auto all = sum_over_ranks(world, {sum, static_cast<double>(shard.size())});
      require(all[0] == static_cast<double>(count * (count - 1) / 2) && all[1] == static_cast<double>(count),
              "sums");
    }
  }));
}

TEST_CASE("ranks draw the same numbers, or each its own") {
  CHECK(in_world("gloo", 2, [](const Group& world) {
    const auto spread = [&](const at::Tensor& drawn) {
      const auto all =
          sum_over_ranks(world, {world.rank() == 0 ? drawn.item<double>() : -drawn.item<double>()});
      return all[0];
    };
    seed_all_devices(5);
    require(spread(torch::rand({1})) == 0, "the same");
    seed_each_rank(world, 5);
    require(spread(torch::rand({1})) != 0, "others");
  }));
}

TEST_CASE("rank 0 of a group prints, others and non-members do not") {
  CHECK(in_world("gloo", 3, [](const Group& world) {
    const Group last = new_group(world, {1, 2});
    std::ostringstream text;
    std::streambuf* const before = std::cout.rdbuf(text.rdbuf());
    rank_zero_out(last) << "loss " << 0.5;
    std::cout.rdbuf(before);
    require_equal(text.str(), world.rank() == 1 ? "loss 0.5" : "");
  }));
}
