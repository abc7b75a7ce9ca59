#include "worker/runtime/comm/shm/group.h"

#include "tests/support/catch.h"
#include "tests/unit/shm/ranks.h"
#include "worker/runtime/comm/shm/broadcast.h"
#include "worker/runtime/comm/shm/gate_only.h"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

using namespace ddprun;
using namespace ddprun::runtime::shm;
using namespace std::chrono_literals;

namespace {

/// The messages that ranks end with.
class Messages {
 public:
  void add(const Result<void>& result) {
    const std::lock_guard lock(mutex_);
    messages_.insert(result ? "ok" : result.error().message());
  }
  [[nodiscard]] const std::set<std::string>& all() const { return messages_; }

 private:
  std::mutex mutex_;
  std::set<std::string> messages_;
};

Result<void> broadcast(Group& group, DType dtype, std::vector<std::int64_t> sizes, int root) {
  Description what{.kind = Kind::kBroadcast, .dtype = dtype, .root = root};
  what.set_shape(sizes);
  std::vector<std::byte> data(what.count * item_size(dtype));
  Broadcast collective(data.data(), data.size(), what);
  return group.run(collective, 60s);
}

Result<void> barrier(Group& group, Duration timeout = 60s) {
  GateOnly collective;
  return group.run(collective, timeout);
}

/// A collective with another one as its part.
class OfTwo final : public Collective {
 public:
  [[nodiscard]] Description describe() const override { return {}; }
  void contribute(Group&, Post&) override {}
  Result<void> complete(Group& group) override {
    GateOnly part;
    return group.run_nested(part);
  }
};

}  // namespace

TEST_CASE("collectives are counted as their callers count them") {
  std::atomic<std::uint64_t> counted{0};
  testing::in_group(testing::small_shape(2), [&](Group& group) {
    OfTwo collective;
    group.run(collective, 60s).value();
    barrier(group).value();
    counted += group.sequence();
  });
  CHECK(counted == 2 + 2);
}

TEST_CASE("different roots, dtypes and shapes are told on every rank, by name") {
  Messages messages;
  SECTION("roots") {
    testing::in_group(testing::small_shape(2), [&](Group& group) {
      messages.add(broadcast(group, DType::kInt64, {3}, group.rank()));
    });
    CHECK(messages.all() ==
          std::set<std::string>{
              "operation 1 differs between ranks: rank 0 called broadcast from rank 0 of int64[3], rank "
              "1 called broadcast from rank 1 of int64[3]; all ranks must call the same collectives in "
              "the same order"});
  }
  SECTION("dtypes") {
    testing::in_group(testing::small_shape(3), [&](Group& group) {
      messages.add(broadcast(group, group.rank() == 1 ? DType::kInt64 : DType::kFloat64, {2, 2}, 0));
    });
    CHECK(messages.all() ==
          std::set<std::string>{
              "operation 1 differs between ranks: rank 0 called broadcast from rank 0 of float64[2, 2], "
              "rank 1 called broadcast from rank 0 of int64[2, 2]; all ranks must call the same "
              "collectives in the same order"});
  }
  SECTION("shapes of the same number of elements") {
    testing::in_group(testing::small_shape(2), [&](Group& group) {
      messages.add(broadcast(
          group, DType::kUint8,
          group.rank() == 0 ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{3, 2}, 0));
    });
    CHECK(messages.all() ==
          std::set<std::string>{
              "operation 1 differs between ranks: rank 0 called broadcast from rank 0 of uint8[2, 3], "
              "rank 1 called broadcast from rank 0 of uint8[3, 2]; all ranks must call the same "
              "collectives in the same order"});
  }
  SECTION("collectives") {
    testing::in_group(testing::small_shape(2), [&](Group& group) {
      messages.add(group.rank() == 0 ? barrier(group) : broadcast(group, DType::kBool, {1}, 0));
    });
    CHECK(messages.all() ==
          std::set<std::string>{
              "operation 1 differs between ranks: rank 0 called barrier, rank 1 called broadcast from "
              "rank 0 of bool[1]; all ranks must call the same collectives in the same order"});
  }
}

TEST_CASE("after an error every further collective fails on every rank, also when all call the same") {
  Messages messages;
  testing::in_group(testing::small_shape(3), [&](Group& group) {
    broadcast(group, DType::kUint8, {3}, group.rank() % 2).error();
    for (int i = 0; i < 3; ++i) messages.add(barrier(group));
  });
  CHECK(messages.all().size() == 3);
  for (const std::string& message : messages.all())
    CHECK(message.find("the group has ended: operation 1 differs") != std::string::npos);
}

TEST_CASE("a scalar and a tensor of one element are the same shape") {
  Messages messages;
  testing::in_group(testing::small_shape(2), [&](Group& group) {
    messages.add(broadcast(group, DType::kFloat32,
                           group.rank() == 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1, 1},
                           0));
  });
  CHECK(messages.all() == std::set<std::string>{"ok"});
}

TEST_CASE("a timeout names the ranks that did not come, and ends the group for them too") {
  Messages first;
  Messages late;
  testing::on_each_rank(testing::small_shape(4), [&](int rank, const std::shared_ptr<Segment>& segment) {
    static std::atomic<int> told{0};
    if (rank == 0) told = 0;
    auto group = Group::join(segment, rank, 60s).value();
    if (rank == 0 || rank == 2) {
      first.add(barrier(*group, 2s));
      ++told;
    }
    while (told < 2) std::this_thread::yield();
    if (rank == 1) late.add(barrier(*group));
    while (rank != 1 && segment->rank_state(1).state != RankState::kLeft) std::this_thread::yield();
  });
  const std::string by0 =
      "barrier (operation 1): timed out after 2.0 s on rank 0: ranks 1 and 3 of 4 did not come; are "
      "they slower than the timeout, or in another collective?";
  const std::string by2 =
      "barrier (operation 1): timed out after 2.0 s on rank 2: ranks 1 and 3 of 4 did not come; are "
      "they slower than the timeout, or in another collective?";
  for (const std::string& message : first.all()) {
    INFO(message);
    CHECK((message == by0 || message == by2 ||
           message == "barrier (operation 1): the group has ended: " + by0 ||
           message == "barrier (operation 1): the group has ended: " + by2));
  }
  REQUIRE(late.all().size() == 1);
  CHECK(late.all().begin()->starts_with(
      "barrier (operation 1): the group has ended: barrier (operation 1): timed out"));
}

TEST_CASE("the last rank to come hears that the others have given up, though all are there now") {
  Messages late;
  testing::on_each_rank(testing::small_shape(3), [&](int rank, const std::shared_ptr<Segment>& segment) {
    static std::atomic<int> told{0};
    if (rank == 0) told = 0;
    auto group = Group::join(segment, rank, 60s).value();
    if (rank != 1) {
      if (barrier(*group, 50ms)) throw std::runtime_error("rank 1 had not come");
      ++told;
    }
    while (told < 2) std::this_thread::yield();
    if (rank == 1) late.add(barrier(*group));
    while (rank != 1 && segment->rank_state(1).state != RankState::kLeft) std::this_thread::yield();
  });
  REQUIRE(late.all().size() == 1);
  CHECK(late.all().begin()->starts_with(
      "barrier (operation 1): the group has ended: barrier (operation 1): timed out after 0.1 s on rank "));
}

TEST_CASE("a rank that is slow to leave a gate is not told of a failure behind it") {
  testing::in_group(testing::small_shape(2), [&](Group& group) {
    GateOnly collective;
    group.start(collective, 60s);
    if (group.rank() == 0) {
      group.wait_at_gate(Duration::max()).value();
      group.fail(Error(ErrorCode::kInternal, "behind the gate"));
    } else {
      while (group.segment().failure() == nullptr) std::this_thread::yield();
      group.wait_at_gate(Duration::max()).value();
    }
  });
}

TEST_CASE("of ranks whose patience ends at the same moment one tells why, and the others quote it") {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> own{0};
    std::atomic<int> quoted{0};
    testing::in_group(testing::small_shape(4), [&](Group& group) {
      if (group.rank() != 0) {
        const std::string message = barrier(group, 1ms).error().message();
        ++(message.find("the group has ended") == std::string::npos ? own : quoted);
      }
      while (own + quoted < 3) std::this_thread::yield();
    });
    REQUIRE(own == 1);
    REQUIRE(quoted == 2);
  }
}

TEST_CASE("why the group ended is cut between two characters") {
  Messages other;
  testing::in_group(testing::small_shape(2), [&](Group& group) {
    std::string long_text = "x";  // so that the room ends within a character
    while (long_text.size() <= Failure::kTextBytes) long_text += "\xe2\x82\xac!";
    if (group.rank() == 0) group.fail(Error(ErrorCode::kInternal, long_text));
    while (group.segment().failure() == nullptr) std::this_thread::yield();
    if (group.rank() == 1) other.add(barrier(group));
  });
  CHECK(other.all().begin()->ends_with("\xe2\x82\xac!"));
}

TEST_CASE("a rank that has left is named at once") {
  Messages messages;
  testing::in_group(testing::small_shape(2), [&](Group& group) {
    if (group.rank() == 0) messages.add(barrier(group));
  });
  REQUIRE(messages.all().size() == 1);
  const std::string expected = "barrier (operation 1): rank 1 (pid " + std::to_string(::getpid()) +
                               ") has left the group while rank 0 waited for it; all ranks must call the "
                               "same collectives before they end";
  CHECK(*messages.all().begin() == expected);
}

TEST_CASE("a rank may leave as soon as its part is done") {
  Messages messages;
  testing::in_group(testing::small_shape(3),
                    [&](Group& group) { messages.add(broadcast(group, DType::kUint8, {3000}, 0)); });
  CHECK(messages.all() == std::set<std::string>{"ok"});
}

TEST_CASE("abort ends a wait from another thread") {
  Messages messages;
  testing::on_each_rank(testing::small_shape(2), [&](int rank, const std::shared_ptr<Segment>& segment) {
    auto group = Group::join(segment, rank, 60s).value();
    if (rank == 0) {
      std::thread other([&] {
        while (segment->post(0, 2).ticket < 2) std::this_thread::yield();
        group->abort();
      });
      messages.add(barrier(*group));
      other.join();
    }
    while (rank == 1 && segment->rank_state(0).state != RankState::kLeft) std::this_thread::yield();
  });
  CHECK(messages.all() == std::set<std::string>{"barrier (operation 1): aborted by rank 0 itself"});
}

TEST_CASE("a group that nobody else joins says who is missing") {
  const auto segment = Segment::create(testing::small_shape(3)).value();
  const auto group = Group::join(segment, 1, 20ms);
  REQUIRE(group.has_error());
  CHECK(group.error().message() ==
        "cannot join the group: barrier (operation 1): timed out after 0.0 s on rank 1: ranks 0 and 2 of 3 "
        "did not come; "
        "are they slower than the timeout, or in another collective?");
}
