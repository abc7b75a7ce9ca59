#include "tests/support/catch.h"
#include "tests/unit/shm/ranks.h"
#include "worker/runtime/comm/shm/all_reduce.h"
#include "worker/runtime/comm/shm/all_to_all.h"
#include "worker/runtime/comm/shm/broadcast.h"
#include "worker/runtime/comm/shm/gather.h"
#include "worker/runtime/comm/shm/reduce_scatter.h"
#include "worker/runtime/comm/shm/scatter.h"

#include <array>
#include <atomic>
#include <chrono>

using namespace ddprun;
using namespace ddprun::runtime::shm;

namespace {

using Data = std::vector<std::int32_t>;

constexpr std::array<std::size_t, 7> kCounts{0, 1, 8, 9, 1024, 1025, 7000};  // small_shape's slots hold 1,024

int pick_ranks() { return GENERATE(1, 2, 3, 5, 8, 16); }

Description describe(Kind kind, std::size_t count, int root = -1) {
  Description what{.kind = kind, .dtype = DType::kInt32, .root = root};
  what.set_shape(std::array{static_cast<std::int64_t>(count)});
  return what;
}

std::byte* bytes(Data& data) { return reinterpret_cast<std::byte*>(data.data()); }

/// What rank `from` gives to rank `to`.
Data part(int from, int to, std::size_t count) {
  Data data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = from * 1000000 + to * 10000 + static_cast<std::int32_t>(i % 9973);
  return data;
}

void run(Group& group, Collective& collective) { group.run(collective, std::chrono::seconds(60)).value(); }

}  // namespace

TEST_CASE("broadcast brings the root's data to every rank") {
  const int ranks = pick_ranks();
  std::atomic<int> wrong{0};
  testing::in_group(testing::small_shape(ranks), [&](Group& group) {
    for (const std::size_t count : kCounts) {
      const int root = static_cast<int>(count) % ranks;
      Data data = group.rank() == root ? part(root, 0, count) : Data(count);
      Broadcast broadcast(bytes(data), count * 4, describe(Kind::kBroadcast, count, root));
      run(group, broadcast);
      wrong += data == part(root, 0, count) ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("all-gather brings everybody's data to everybody") {
  const int ranks = pick_ranks();
  std::atomic<int> wrong{0};
  testing::in_group(testing::small_shape(ranks), [&](Group& group) {
    for (const std::size_t count : kCounts) {
      Data in = part(group.rank(), 0, count);
      std::vector<Data> outs(static_cast<std::size_t>(ranks), Data(count));
      std::vector<std::byte*> targets;
      for (Data& out : outs) targets.push_back(bytes(out));
      Gather gather(bytes(in), count * 4, targets, describe(Kind::kAllGather, count));
      run(group, gather);
      for (int rank = 0; rank < ranks; ++rank) {
        wrong += outs[static_cast<std::size_t>(rank)] == part(rank, 0, count) ? 0 : 1;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("scatter gives every rank its part") {
  const int ranks = pick_ranks();
  std::atomic<int> wrong{0};
  testing::in_group(testing::small_shape(ranks), [&](Group& group) {
    for (const std::size_t count : kCounts) {
      const int root = ranks - 1;
      std::vector<Data> ins;
      std::vector<const std::byte*> sources;
      for (int rank = 0; rank < ranks && group.rank() == root; ++rank) ins.push_back(part(root, rank, count));
      for (Data& in : ins) sources.push_back(bytes(in));
      Data out(count);
      Scatter scatter(sources, bytes(out), count * 4, describe(Kind::kScatter, count, root));
      run(group, scatter);
      wrong += out == part(root, group.rank(), count) ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("reduce-scatter gives every rank the sum of the parts meant for it") {
  const int ranks = pick_ranks();
  std::atomic<int> wrong{0};
  testing::in_group(testing::small_shape(ranks), [&](Group& group) {
    for (const std::size_t count : kCounts) {
      std::vector<Data> ins;
      std::vector<const std::byte*> sources;
      for (int rank = 0; rank < ranks; ++rank) ins.push_back(part(group.rank(), rank, count));
      for (Data& in : ins) sources.push_back(bytes(in));
      Data out(count), expected(count);
      for (int rank = 0; rank < ranks; ++rank) {
        const Data more = part(rank, group.rank(), count);
        for (std::size_t i = 0; i < count; ++i) expected[i] += more[i];
      }
      ReduceScatter collective({.ins = sources,
                                .out = bytes(out),
                                .what = describe(Kind::kReduceScatter, count),
                                .kernels = find_kernels(DType::kInt32, ReduceOp::kSum)});
      run(group, collective);
      wrong += out == expected ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("all-to-all exchanges parts of any length between any two ranks") {
  const int ranks = pick_ranks();
  std::atomic<int> wrong{0};
  testing::in_group(testing::small_shape(ranks), [&](Group& group) {
    const auto length = [](int from, int to) {
      return static_cast<std::size_t>((from * 7 + to * 3) % 5) * 301;
    };
    for (int round = 0; round < 3; ++round) {
      std::vector<Data> ins, outs;
      std::vector<AllToAll::Part> sources, targets;
      for (int rank = 0; rank < ranks; ++rank) {
        ins.push_back(part(group.rank(), rank, length(group.rank(), rank)));
        outs.emplace_back(length(rank, group.rank()));
      }
      for (Data& in : ins) sources.push_back({bytes(in), in.size() * 4});
      for (Data& out : outs) targets.push_back({bytes(out), out.size() * 4});
      AllToAll collective(sources, targets, {.kind = Kind::kAllToAll, .dtype = DType::kInt32});
      run(group, collective);
      for (int rank = 0; rank < ranks; ++rank) {
        const Data& out = outs[static_cast<std::size_t>(rank)];
        wrong += out == part(rank, group.rank(), out.size()) ? 0 : 1;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("all-to-all names the two ranks that do not agree on a length") {
  std::atomic<int> told{0};
  testing::in_group(testing::small_shape(3), [&](Group& group) {
    std::vector<Data> ins(3, Data(10)), outs(3, Data(group.rank() == 2 ? 12 : 10));
    std::vector<AllToAll::Part> sources, targets;
    for (Data& in : ins) sources.push_back({bytes(in), in.size() * 4});
    for (Data& out : outs) targets.push_back({bytes(out), out.size() * 4});
    AllToAll collective(sources, targets, {.kind = Kind::kAllToAll, .dtype = DType::kInt32});
    const auto result = group.run(collective, std::chrono::seconds(60));
    told += result.error().message() ==
                    "all-to-all of int32 (operation 1): rank 0 sends 40 bytes to rank 2, which expects 48"
                ? 1
                : 0;
  });
  CHECK(told == 3);
}

TEST_CASE("collectives of all kinds and sizes follow each other without waiting for readers") {
  std::atomic<int> wrong{0};
  testing::in_group(testing::small_shape(4), [&](Group& group) {
    for (int round = 0; round < 300; ++round) {
      const auto count = static_cast<std::size_t>(round * 37 % 2500);
      const int root = round % 4;
      Data data = group.rank() == root ? part(root, 1, count) : Data(count);
      Broadcast broadcast(bytes(data), count * 4, describe(Kind::kBroadcast, count, root));
      run(group, broadcast);
      wrong += data == part(root, 1, count) ? 0 : 1;
      Data sum(count, group.rank() + round);
      AllReduce reduce({.in = bytes(sum),
                        .out = bytes(sum),
                        .what = describe(Kind::kAllReduce, count),
                        .kernels = find_kernels(DType::kInt32, ReduceOp::kSum)});
      run(group, reduce);
      wrong += sum == Data(count, 6 + 4 * round) ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
}
