#include "worker/runtime/comm/shm/engine.h"

#include "tests/support/catch.h"
#include "tests/unit/shm/ranks.h"
#include "worker/runtime/comm/shm/all_reduce.h"
#include "worker/runtime/comm/shm/mailbox.h"

#include <array>
#include <chrono>
#include <future>

using namespace ddprun;
using namespace ddprun::runtime::shm;
using namespace std::chrono_literals;

namespace {

using Data = std::vector<std::int32_t>;

/// All-reduces `data` in place; the future is ready when it has ended.
std::future<Result<void>> all_reduce(Engine& engine, Data& data, Patience patience) {
  Description what{.kind = Kind::kAllReduce, .dtype = DType::kInt32};
  what.set_shape(std::array{static_cast<std::int64_t>(data.size())});
  auto* const bytes = reinterpret_cast<std::byte*>(data.data());
  auto promise = std::make_shared<std::promise<Result<void>>>();
  const auto outcome = engine.submit(
      std::make_unique<AllReduce>(AllReduce::Arguments{
          .in = bytes, .out = bytes, .what = what, .kernels = find_kernels(DType::kInt32, ReduceOp::kSum)}),
      60s, patience, [&]() -> Engine::Done {
        return [promise](const Result<void>& result) { promise->set_value(result); };
      });
  if (outcome) promise->set_value(*outcome);
  return promise->get_future();
}

template <class Body>
void with_engines(int ranks, const Body& body) {
  testing::on_each_rank(testing::small_shape(ranks), [&](int rank, const std::shared_ptr<Segment>& segment) {
    Engine engine(Group::join(segment, rank, 60s).value());
    body(rank, engine, segment);
  });
}

}  // namespace

TEST_CASE("collectives run in the order of their submission, waited for or not") {
  with_engines(3, [&](int rank, Engine& engine, const std::shared_ptr<Segment>&) {
    std::vector<Data> data;
    for (int i = 0; i < 50; ++i) data.emplace_back(static_cast<std::size_t>(i * 60 + 1), rank + i);
    std::vector<std::future<Result<void>>> done;
    for (std::size_t i = 0; i < data.size(); ++i) {
      done.push_back(all_reduce(engine, data[i], i % 4 == 3 ? Patience::kBlocking : Patience::kShort));
    }
    for (auto& one : done) one.get().value();
    for (int i = 0; i < 50; ++i) {
      if (data[static_cast<std::size_t>(i)] != Data(static_cast<std::size_t>(i * 60 + 1), 3 + 3 * i)) {
        throw std::runtime_error("wrong sum");
      }
    }
  });
}

TEST_CASE("a collective that was not waited for lets its rank send what the peer needs to come") {
  with_engines(2, [&](int rank, Engine& engine, const std::shared_ptr<Segment>& segment) {
    Mailbox mailbox(segment, rank);
    Data sum(1000, 1);
    Data message(3000, 8);
    auto sent = std::make_shared<std::promise<Result<void>>>();
    const Mailbox::Letter letter{.peer = 1 - rank,
                                 .dtype = DType::kInt32,
                                 .data = reinterpret_cast<std::byte*>(message.data()),
                                 .bytes = message.size() * 4,
                                 .timeout = 60s};
    const Mailbox::Done done = [sent](const Result<void>& result, int) { sent->set_value(result); };
    if (rank == 0) {
      auto reduced = all_reduce(engine, sum, Patience::kShort);
      mailbox.send(letter, done);
      sent->get_future().get().value();
      reduced.get().value();
    } else {
      mailbox.receive(letter, done);
      sent->get_future().get().value();
      all_reduce(engine, sum, Patience::kShort).get().value();
    }
    if (sum != Data(1000, 2)) throw std::runtime_error("wrong sum");
  });
}

TEST_CASE("an engine that ends takes its pending collectives with it") {
  std::string message;
  testing::on_each_rank(testing::small_shape(2), [&](int rank, const std::shared_ptr<Segment>& segment) {
    static std::atomic<bool> is_over{false};
    if (rank == 0) is_over = false;
    auto group = Group::join(segment, rank, 60s).value();
    if (rank == 0) {
      Data data(10);
      std::future<Result<void>> done;
      {
        Engine engine(std::move(group));
        done = all_reduce(engine, data, Patience::kShort);
      }
      message = done.get().error().message();
      is_over = true;
    }
    while (!is_over) std::this_thread::yield();
  });
  CHECK(message == "all-reduce (sum) of int32[10] (operation 1): aborted by rank 0 itself");
}
