// libtorch's own c10d::TCPStore client is the judge of our server.

#include "tests/support/catch.h"
#include "tests/support/no_name_server.h"
#include "tests/support/store_server.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using ddprun::testing::RunningStore;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string text(const Bytes& value) { return {value.begin(), value.end()}; }

c10::intrusive_ptr<c10d::TCPStore> connect(const RunningStore& store,
                                           std::chrono::milliseconds timeout = 10s) {
  ddprun::testing::ask_no_name_server();
  c10d::TCPStoreOptions options;
  options.port = store.port().value();
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// Runs `action(client, i)` on `count` threads at once, each with a client of its own.
template <class Action>
void with_clients(const RunningStore& store, int count, Action action) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&store, &action, i] { action(*connect(store, 60s), i); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("set and get") {
  RunningStore store;
  const auto client = connect(store);
  client->set("k", bytes("value"));
  CHECK(text(connect(store)->get("k")) == "value");
}

TEST_CASE("an empty value and one with zero bytes come back as they are") {
  RunningStore store;
  const auto client = connect(store);
  client->set("empty", Bytes{});
  client->set("zeros", Bytes{0, 1, 0});
  CHECK(client->get("empty").empty());
  CHECK(client->get("zeros") == Bytes{0, 1, 0});
}

TEST_CASE("add") {
  RunningStore store;
  const auto client = connect(store);
  CHECK(client->add("n", 5) == 5);
  CHECK(client->add("n", -7) == -2);
  CHECK(text(client->get("n")) == "-2");
}

TEST_CASE("compare_set") {
  RunningStore store;
  const auto client = connect(store);
  CHECK(text(client->compareSet("k", bytes("x"), bytes("new"))) == "x");
  CHECK(text(client->compareSet("k", Bytes{}, bytes("first"))) == "first");
  CHECK(text(client->compareSet("k", bytes("x"), bytes("new"))) == "first");
  CHECK(text(client->compareSet("k", bytes("first"), bytes("second"))) == "second");
}

TEST_CASE("wait ends when the keys are there") {
  RunningStore store;
  std::thread setter([&] {
    const auto client = connect(store);
    client->set("a", bytes("1"));
    client->set("b", bytes("2"));
    client->getNumKeys();
  });
  const auto client = connect(store);
  client->wait({"a", "b"}, 10s);
  setter.join();
  CHECK(client->check({"a", "b"}));
}

TEST_CASE("wait with a time-out cancels, and the connection goes on") {
  RunningStore store;
  const auto client = connect(store);
  CHECK_THROWS_WITH(client->wait({"never"}, 20ms), Catch::Matchers::Contains("wait timeout after 20ms"));
  client->set("k", bytes("v"));
  CHECK(text(client->get("k")) == "v");
  CHECK_THROWS(client->wait({"never"}, 20ms));
  CHECK(client->add("n", 1) == 1);
}

TEST_CASE("get of a missing key times out with the client's message") {
  RunningStore store;
  CHECK_THROWS_WITH(connect(store, 50ms)->get("never"), Catch::Matchers::Contains("keys: /never"));
}

TEST_CASE("check") {
  RunningStore store;
  const auto client = connect(store);
  client->set("a", bytes("1"));
  CHECK(client->check({"a"}));
  CHECK_FALSE(client->check({"a", "b"}));
}

TEST_CASE("multi_set and multi_get") {
  RunningStore store;
  const auto client = connect(store);
  client->multiSet({"a", "b", "c"}, {bytes("1"), bytes("22"), bytes("333")});
  const std::vector<Bytes> values = client->multiGet({"c", "a", "b"});
  REQUIRE(values.size() == 3);
  CHECK(text(values[0]) == "333");
  CHECK(text(values[1]) == "1");
  CHECK(text(values[2]) == "22");
}

TEST_CASE("a multi_set of ten thousand keys is got back") {
  RunningStore store;
  const auto client = connect(store);
  std::vector<std::string> keys;
  std::vector<Bytes> values;
  for (int i = 0; i < 10000; ++i) {
    keys.push_back("key" + std::to_string(i));
    values.push_back(bytes(std::string(100, static_cast<char>('a' + i % 26))));
  }
  client->multiSet(keys, values);
  CHECK(client->multiGet(keys) == values);
}

TEST_CASE("append") {
  RunningStore store;
  const auto client = connect(store);
  client->append("k", bytes("po"));
  client->append("k", bytes("em"));
  CHECK(text(client->get("k")) == "poem");
}

TEST_CASE("delete") {
  RunningStore store;
  const auto client = connect(store);
  client->set("k", bytes("v"));
  CHECK(client->deleteKey("k"));
  CHECK_FALSE(client->deleteKey("k"));
}

TEST_CASE("num_keys and list_keys") {
  RunningStore store;
  const auto client = connect(store);
  client->set("a", bytes("1"));
  client->set("b", bytes("2"));
  CHECK(client->getNumKeys() == 2);
  std::vector<std::string> keys = client->listKeys();
  std::sort(keys.begin(), keys.end());
  CHECK(keys == std::vector<std::string>{"a", "b"});
}

TEST_CASE("queues") {
  RunningStore store;
  const auto client = connect(store);
  client->queuePush("q", bytes("1"));
  client->queuePush("q", bytes("2"));
  CHECK(client->queueLen("q") == 2);
  CHECK(text(client->queuePop("q", false)) == "1");
  CHECK(text(client->queuePop("q", true)) == "2");
  CHECK_THROWS_WITH(client->queuePop("q", false), Catch::Matchers::Contains("queue is empty"));
}

TEST_CASE("blocking pops of four consumers take each item once") {
  RunningStore store;
  std::atomic<int> sum = 0;
  std::thread producer([&] {
    const auto client = connect(store);
    for (int i = 1; i <= 40; ++i) client->queuePush("q", bytes(std::to_string(i)));
    client->getNumKeys();
  });
  with_clients(store, 4, [&](c10d::TCPStore& client, int) {
    for (int taken = 0; taken < 10;) {
      try {
        sum += std::stoi(text(client.queuePop("q", true)));
        ++taken;
      } catch (const c10::Error&) {  // another consumer was faster: the protocol allows it
      }
    }
  });
  producer.join();
  CHECK(sum == 40 * 41 / 2);
}

TEST_CASE("a value of eight megabytes goes there and back") {
  RunningStore store;
  const auto client = connect(store);
  const Bytes value(8 * 1024 * 1024, 7);
  client->set("k", value);
  CHECK(client->get("k") == value);
}

TEST_CASE("a set whose bytes are split over two writes is read whole") {
  RunningStore store;
  const auto client = connect(store);
  client->_splitSet("k", bytes("value"));
  CHECK(text(client->get("k")) == "value");
}

TEST_CASE("a client that declares the world's size joins as with PyTorch's server") {
  RunningStore store;
  c10d::TCPStoreOptions options;
  options.port = store.port().value();
  options.numWorkers = 1;
  options.timeout = 10s;
  const auto client = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  CHECK(client->getNumKeys() == 1);
  CHECK(client->listKeys().empty());
}

TEST_CASE("a prefix store works on top") {
  RunningStore store;
  const auto client = connect(store);
  c10d::PrefixStore prefixed("p", client);
  prefixed.set("k", bytes("v"));
  CHECK(text(client->get("p/k")) == "v");
}

TEST_CASE("the extended operations are announced as with PyTorch's server") {
  RunningStore store;
  CHECK(connect(store)->hasExtendedApi());
}

TEST_CASE("a hundred clients at once count to a hundred and see each other's keys") {
  RunningStore store;
  std::atomic<int> right = 0;
  with_clients(store, 100, [&](c10d::TCPStore& client, int i) {
    client.set("rank" + std::to_string(i), bytes(std::to_string(i)));
    if (client.add("arrived", 1) == 100) client.set("all", bytes("here"));
    client.wait({"all"}, 30s);
    const int other = (i + 37) % 100;
    if (text(client.get("rank" + std::to_string(other))) == std::to_string(other)) ++right;
  });
  CHECK(right == 100);
}

TEST_CASE("a client of the last generation keeps its keys, a new one has none") {
  RunningStore store;
  const auto before = connect(store);
  before->set("k", bytes("old"));
  before->getNumKeys();
  store.call([&] { store.server().begin_generation(); });
  CHECK(connect(store)->getNumKeys() == 0);
  CHECK(text(before->get("k")) == "old");
}
