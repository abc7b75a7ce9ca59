#include "worker/runtime/comm/shm/all_reduce.h"

#include "tests/support/catch.h"
#include "tests/unit/shm/ranks.h"
#include "worker/runtime/comm/shm/arena.h"

#include <atomic>
#include <cstring>

using namespace ddprun;
using namespace ddprun::runtime::shm;

namespace {

Description all_reduce_of(DType dtype, ReduceOp op, std::int64_t count) {
  Description what{.kind = Kind::kAllReduce, .dtype = dtype, .op = op};
  what.set_shape(std::array{count});
  return what;
}

Result<void> all_reduce(Group& group, std::span<float> in, std::span<float> out, ReduceOp op = ReduceOp::kSum,
                        int root = -1) {
  Description what = all_reduce_of(DType::kFloat32, op, static_cast<std::int64_t>(in.size()));
  if (root >= 0) what.kind = Kind::kReduce;
  what.root = root;
  AllReduce collective({.in = reinterpret_cast<const std::byte*>(in.data()),
                        .out = reinterpret_cast<std::byte*>(out.data()),
                        .what = what,
                        .kernels = find_kernels(DType::kFloat32, op)});
  return group.run(collective, std::chrono::seconds(60));
}

float value_of(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 13) % 101);
}

float sum_at(int ranks, std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, index);
  return sum;
}

void fill(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = value_of(rank, i);
}

std::size_t count_wrong_sums(std::span<const float> data, int ranks) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < data.size(); ++i) wrong += data[i] == sum_at(ranks, i) ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE("all-reduce sums over any number of ranks, from nothing to more than the segment holds") {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 7, 8, 16);
  std::atomic<std::size_t> wrong{0};
  testing::in_group(testing::small_shape(ranks), [&](Group& group) {
    for (const std::size_t count : {0, 1, 3, 8, 9, 100, 1024, 2047, 2049, 5000, 30001}) {
      std::vector<float> data(count);
      fill(data, group.rank());
      all_reduce(group, data, data).value();
      wrong += count_wrong_sums(data, ranks);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("all-reduce leaves an input of its own alone") {
  std::atomic<std::size_t> wrong{0};
  testing::in_group(testing::small_shape(3), [&](Group& group) {
    std::vector<float> in(9000), out(9000);
    fill(in, group.rank());
    all_reduce(group, in, out).value();
    wrong += count_wrong_sums(out, 3);
    for (std::size_t i = 0; i < in.size(); ++i) wrong += in[i] == value_of(group.rank(), i) ? 0 : 1;
  });
  CHECK(wrong == 0);
}

TEST_CASE("all-reduce works in place on data in the arenas, wherever each rank has put it") {
  const int ranks = GENERATE(2, 3, 8);
  std::atomic<std::size_t> wrong{0};
  testing::on_each_rank(testing::small_shape(ranks), [&](int rank, const std::shared_ptr<Segment>& segment) {
    auto group = Group::join(segment, rank, std::chrono::seconds(60)).value();
    Arena arena(segment, rank);
    if (rank == 1) CHECK(arena.allocate(1000) != nullptr);
    const std::span<float> data(reinterpret_cast<float*>(arena.allocate(40000)), 10000);
    for (int round = 0; round < 3; ++round) {
      fill(data, rank);
      all_reduce(*group, data, data).value();
      wrong += count_wrong_sums(data, ranks);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("all-reduce copes with ranks of which only some have their data in the arena") {
  std::atomic<std::size_t> wrong{0};
  testing::on_each_rank(testing::small_shape(3), [&](int rank, const std::shared_ptr<Segment>& segment) {
    auto group = Group::join(segment, rank, std::chrono::seconds(60)).value();
    Arena arena(segment, rank);
    std::vector<float> own(10000);
    const std::span<float> data(rank == 1 ? reinterpret_cast<float*>(arena.allocate(40000)) : own.data(),
                                10000);
    for (int round = 0; round < 3; ++round) {
      fill(data, rank);
      all_reduce(*group, data, data).value();
      wrong += count_wrong_sums(data, 3);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("reduce gives the root what all-reduce would, and leaves the other ranks alone") {
  const int root = GENERATE(0, 2);
  const std::size_t count = GENERATE(5, 1000, 5000);
  std::atomic<std::size_t> wrong{0};
  testing::in_group(testing::small_shape(3), [&](Group& group) {
    std::vector<float> data(count);
    fill(data, group.rank());
    all_reduce(group, data, data, ReduceOp::kSum, root).value();
    if (group.rank() == root)
      wrong += count_wrong_sums(data, 3);
    else
      for (std::size_t i = 0; i < count; ++i) wrong += data[i] == value_of(group.rank(), i) ? 0 : 1;
  });
  CHECK(wrong == 0);
}

TEST_CASE("the average is the sum divided by the number of ranks") {
  const std::size_t count = GENERATE(3, 1000, 9000);
  std::atomic<std::size_t> wrong{0};
  testing::in_group(testing::small_shape(3), [&](Group& group) {
    std::vector<float> data(count);
    fill(data, group.rank());
    all_reduce(group, data, data, ReduceOp::kAverage).value();
    for (std::size_t i = 0; i < count; ++i) wrong += data[i] == sum_at(3, i) / 3.0F ? 0 : 1;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a rank that reduces another number of elements is named, and nothing is written") {
  std::atomic<int> told{0};
  std::atomic<std::size_t> wrong{0};
  testing::in_group(testing::small_shape(3), [&](Group& group) {
    std::vector<float> data(group.rank() == 2 ? 40 : 50);
    fill(data, group.rank());
    const auto result = all_reduce(group, data, data);
    told +=
        result.error().message() ==
                "operation 1 differs between ranks: rank 0 called all-reduce (sum) of float32[50], rank 2 "
                "called "
                "all-reduce (sum) of float32[40]; all ranks must call the same collectives in the same order"
            ? 1
            : 0;
    for (std::size_t i = 0; i < data.size(); ++i) wrong += data[i] == value_of(group.rank(), i) ? 0 : 1;
  });
  CHECK(told == 3);
  CHECK(wrong == 0);
}
