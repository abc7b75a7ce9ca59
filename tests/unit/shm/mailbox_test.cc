#include "worker/runtime/comm/shm/mailbox.h"

#include "tests/support/catch.h"
#include "tests/unit/shm/ranks.h"

#include <chrono>
#include <future>
#include <numeric>

using namespace ddprun;
using namespace ddprun::runtime::shm;
using namespace std::chrono_literals;

namespace {

using Data = std::vector<std::int32_t>;

struct Outcome {
  Result<void> result;
  int source;
};

Data numbers(std::size_t count, int first) {
  Data data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

Mailbox::Letter letter(Data& data, int peer, std::uint32_t tag, Duration timeout = 60s) {
  return {.peer = peer,
          .tag = tag,
          .dtype = DType::kInt32,
          .data = reinterpret_cast<std::byte*>(data.data()),
          .bytes = data.size() * 4,
          .timeout = timeout};
}

std::pair<std::future<Outcome>, Mailbox::Done> make_done() {
  auto promise = std::make_shared<std::promise<Outcome>>();
  auto future = promise->get_future();
  return {std::move(future), [promise](const Result<void>& result, int source) {
            promise->set_value({result, source});
          }};
}

std::future<Outcome> send(Mailbox& mailbox, Data& data, int to, std::uint32_t tag) {
  auto [future, done] = make_done();
  mailbox.send(letter(data, to, tag), done);
  return std::move(future);
}

std::future<Outcome> receive(Mailbox& mailbox, Data& data, int from, std::uint32_t tag,
                             Duration timeout = 60s) {
  auto [future, done] = make_done();
  mailbox.receive(letter(data, from, tag, timeout), done);
  return std::move(future);
}

template <class Body>
void with_mailboxes(int ranks, const Body& body) {
  testing::on_each_rank(testing::small_shape(ranks), [&](int rank, const std::shared_ptr<Segment>& segment) {
    auto group = Group::join(segment, rank, 60s).value();
    Mailbox mailbox(segment, rank);
    body(rank, mailbox);
  });
}

}  // namespace

TEST_CASE("messages of any length arrive, also longer than the channel") {
  const std::size_t count = GENERATE(0, 1, 100, 1023, 1024, 50000);
  with_mailboxes(2, [&](int rank, Mailbox& mailbox) {
    Data data = rank == 0 ? numbers(count, 5) : Data(count);
    auto done = rank == 0 ? send(mailbox, data, 1, 7) : receive(mailbox, data, 0, 7);
    done.get().result.value();
    if (data != numbers(count, 5)) throw std::runtime_error("the message is not what was sent");
  });
}

TEST_CASE("two ranks that send to each other before either receives do not block") {
  with_mailboxes(2, [&](int rank, Mailbox& mailbox) {
    Data out = numbers(20000, rank);
    Data in(20000);
    auto sent = send(mailbox, out, 1 - rank, 0);
    auto received = receive(mailbox, in, 1 - rank, 0);
    sent.get().result.value();
    received.get().result.value();
    if (in != numbers(20000, 1 - rank)) throw std::runtime_error("the message is not what was sent");
  });
}

TEST_CASE("a receive takes the message with its tag, whatever came before; with one tag, in order") {
  with_mailboxes(2, [&](int rank, Mailbox& mailbox) {
    if (rank == 0) {
      Data a = numbers(3000, 1), b = numbers(10, 2), c = numbers(10, 3);
      auto first = send(mailbox, a, 1, 1);
      auto second = send(mailbox, b, 1, 2);
      auto third = send(mailbox, c, 1, 2);
      first.get().result.value();
      second.get().result.value();
      third.get().result.value();
      return;
    }
    Data a(3000), b(10), c(10);
    receive(mailbox, b, 0, 2).get().result.value();
    receive(mailbox, c, 0, 2).get().result.value();
    receive(mailbox, a, 0, 1).get().result.value();
    if (a != numbers(3000, 1) || b != numbers(10, 2) || c != numbers(10, 3))
      throw std::runtime_error("mixed up");
  });
}

TEST_CASE("a receive from anybody says who sent") {
  with_mailboxes(3, [&](int rank, Mailbox& mailbox) {
    Data data(4, rank);
    if (rank > 0) {
      send(mailbox, data, 0, 9).get().result.value();
      return;
    }
    std::vector<int> sources;
    for (int i = 0; i < 2; ++i) {
      const Outcome outcome = receive(mailbox, data, -1, 9).get();
      outcome.result.value();
      if (data != Data(4, outcome.source)) throw std::runtime_error("the source is wrong");
      sources.push_back(outcome.source);
    }
    if (sources[0] + sources[1] != 3) throw std::runtime_error("a sender came twice");
  });
}

TEST_CASE("a message of another length is an error of that receive only") {
  std::string message;
  with_mailboxes(2, [&](int rank, Mailbox& mailbox) {
    Data data(rank == 0 ? 20 : 10);
    Data next = rank == 0 ? numbers(5, 1) : Data(5);
    if (rank == 0) {
      auto first = send(mailbox, data, 1, 3);
      send(mailbox, next, 1, 3).get().result.value();
      first.get().result.value();
      return;
    }
    message = receive(mailbox, data, 0, 3).get().result.error().message();
    receive(mailbox, next, 0, 3).get().result.value();
    if (next != numbers(5, 1)) throw std::runtime_error("the next message is not what was sent");
  });
  CHECK(message ==
        "receive of 40 bytes of int32 from rank 0 (tag 3): the message from rank 0 has 80 bytes of int32");
}

TEST_CASE("a receive times out") {
  std::string message;
  with_mailboxes(2, [&](int rank, Mailbox& mailbox) {
    static std::atomic<bool> is_over{false};
    Data data(1);
    if (rank == 1) {
      message = receive(mailbox, data, 0, 3, 30ms).get().result.error().message();
      is_over = true;
    }
    while (!is_over) std::this_thread::yield();
  });
  CHECK(message == "receive of 4 bytes of int32 from rank 0 (tag 3): timed out after 0.0 s on rank 1");
}

TEST_CASE("a receive from a rank that has left is an error, but not before what it sent has been read") {
  std::string message;
  with_mailboxes(2, [&](int rank, Mailbox& mailbox) {
    Data data(100, 6);
    if (rank == 0) {
      send(mailbox, data, 1, 3).get().result.value();
      return;
    }
    Data in(100);
    receive(mailbox, in, 0, 3).get().result.value();
    if (in != data) throw std::runtime_error("the message is not what was sent");
    message = receive(mailbox, in, 0, 3).get().result.error().message();
  });
  CHECK(message == "receive of 400 bytes of int32 from rank 0 (tag 3): rank 0 (pid " +
                       std::to_string(::getpid()) + ") has ended");
}

TEST_CASE("what is pending ends with the mailbox") {
  const auto segment = Segment::create(testing::small_shape(2)).value();
  Data data(1);
  std::future<Outcome> received;
  {
    Mailbox mailbox(segment, 0);
    segment->rank_state(1).pid = ::getpid();
    segment->rank_state(1).start_time = this_process().value().start_time;
    received = receive(mailbox, data, 1, 3);
  }
  CHECK(received.get().result.error().message() == "the group was shut down by this rank");
}
