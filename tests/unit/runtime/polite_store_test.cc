#include "worker/runtime/comm/roll_call/polite_store.h"

#include "tests/support/catch.h"
#include "worker/runtime/comm/roll_call/await_keys.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <thread>

namespace ddprun::runtime {
namespace {

using namespace std::chrono_literals;

c10::intrusive_ptr<c10d::TCPStore> store_at(std::uint16_t port, bool is_server) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = 20s;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

const std::vector<std::uint8_t> kValue = {4, 2};

TEST_CASE("while one thread waits for a key, another uses the same client") {
  const auto server = store_at(0, true);
  PoliteStore store(store_at(server->getPort(), false));
  std::vector<std::uint8_t> got;
  {
    const std::jthread waiting([&] {
      store.add("is here", 1);
      got = store.get("late");
    });
    server->wait({"is here"});
    for (int i = 0; i < 100; ++i) store.add("goes on", 1);
    store.set("late", kValue);  // which a client that is kept would never bring
  }
  CHECK(got == kValue);
}

TEST_CASE("a key that does not come in time is an error of the store's kind") {
  PoliteStore store(c10::make_intrusive<c10d::HashStore>());
  store.set("there", kValue);
  store.wait({"there"}, 1ms);
  CHECK_THROWS_AS(store.wait({"there", "absent"}, 1ms), c10::DistStoreError);
  store.setTimeout(1ms);
  CHECK_THROWS_AS(store.get("absent"), c10::DistStoreError);
}

TEST_CASE("no time at all and a negative time mean what they mean to TCPStore: at once, and for ever") {
  const auto server = store_at(0, true);
  const auto client = store_at(server->getPort(), false);
  CHECK_THROWS_AS(client->wait({"absent"}, 0ms), c10::DistStoreError);
  PoliteStore store(store_at(server->getPort(), false));
  CHECK_THROWS_AS(store.wait({"absent"}, 0ms), c10::DistStoreError);
  const std::jthread later([&] { server->set("late", kValue); });
  store.wait({"late"}, -1ms);
  CHECK(store.check({"late"}));
}

TEST_CASE("a long wait asks less often, and learns of the key an eighth later at most") {
  CHECK(pause_after(0s) == 200us);
  CHECK(pause_after(80ms) == 10ms);
  CHECK(pause_after(1h) == 100ms);
}

}  // namespace
}  // namespace ddprun::runtime
