#include "tests/support/catch.h"
#include "tests/support/raw_store_client.h"
#include "tests/support/skip.h"
#include "tests/support/store_server.h"

#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

using namespace ddprun;
using namespace ddprun::store;
using ddprun::testing::RawStoreClient;
using ddprun::testing::RunningStore;

namespace {

std::string str(std::string_view text) {
  std::string bytes;
  append_string(bytes, text);
  return bytes;
}

Request get(std::string_view key) { return {.opcode = Opcode::kGet, .keys = {key}}; }
Request set(std::string_view key, std::string_view value) {
  return {.opcode = Opcode::kSet, .keys = {key}, .values = {value}};
}
Request wait_for(std::string_view key) { return {.opcode = Opcode::kWait, .keys = {key}}; }

std::string u64(std::uint64_t value) {
  std::string bytes;
  append_u64(bytes, value);
  return bytes;
}

// A server that writes its log into a string, and a client who must not notice what others do.
struct LoggedStore {
  std::ostringstream log;
  std::shared_ptr<Logger> logger =
      std::make_shared<Logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
  RunningStore store;
  RawStoreClient bystander;

  explicit LoggedStore(StoreServerOptions options = {})
      : store(options, logger), bystander(RawStoreClient::introduced(store.port())) {
    bystander.say(set("k", "untouched"));
  }

  bool bystander_is_well() {
    bystander.say(get("k"));
    return bystander.receive(17) == str("untouched");
  }

  std::string logged() {
    return store.call([this] { return log.str(); });
  }

  // The offender is closed, the reason is in the log, the bystander goes on.
  void check_offence(std::string_view bytes, const std::string& reason) {
    RawStoreClient offender = RawStoreClient::introduced(store.port());
    offender.send(bytes);
    CHECK(offender.is_closed_by_server());
    CHECK_THAT(logged(), Catch::Matchers::Contains(reason));
    CHECK(bystander_is_well());
  }
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("what one connection sets, another gets") {
  RunningStore store;
  RawStoreClient first = RawStoreClient::introduced(store.port());
  RawStoreClient second = RawStoreClient::introduced(store.port());
  first.say(set("k", "value"));
  REQUIRE(first.ping());
  second.say(get("k"));
  CHECK(second.receive(13) == str("value"));
}

TEST_CASE("an introduction that is split over segments is understood") {
  RunningStore store;
  RawStoreClient client(store.port());
  for (const char byte : encode({.opcode = Opcode::kValidate, .nonce = kValidateMagic})) {
    REQUIRE(client.send({&byte, 1}));
    std::this_thread::yield();
  }
  CHECK(client.ping());
}

TEST_CASE("requests that come byte by byte are served") {
  RunningStore store;
  RawStoreClient client = RawStoreClient::introduced(store.port());
  for (const char byte : encode(set("key", "value")) + encode(get("key"))) client.send({&byte, 1});
  CHECK(client.receive(13) == str("value"));
}

TEST_CASE("a stranger is closed with the byte it began with") {
  LoggedStore world;
  RawStoreClient browser(world.store.port());
  browser.send("GET / HTTP/1.1\r\n");
  CHECK(browser.is_closed_by_server());
  CHECK_THAT(world.logged(),
             Catch::Matchers::Contains("it began with byte 0x47, a TCPStore client begins with 0x00"));
  CHECK(world.bystander_is_well());
}

TEST_CASE("a wrong magic closes the connection before anything is served") {
  LoggedStore world;
  RawStoreClient client(world.store.port());
  client.send(encode({.opcode = Opcode::kValidate, .nonce = 1}) + encode(set("k", "overwritten")));
  CHECK(client.is_closed_by_server());
  CHECK_THAT(world.logged(), Catch::Matchers::Contains("VALIDATE with 0x00000001 instead of 0x3c85f7ce"));
  CHECK(world.bystander_is_well());
}

TEST_CASE("whoever breaks the protocol is closed with a reason, and nobody else notices") {
  LoggedStore world;
  world.check_offence("\xff", "opcode 255 is unknown");
  world.check_offence("\x03" + u64(8193), "GET with a key of 8193 bytes; the limit is 8192");
  world.check_offence("\x01" + str("k") + u64(8 * 1024 * 1024 + 1), "SET with a value of 8388609 bytes");
  world.check_offence("\x06" + u64(128 * 1024 + 1), "WAIT with 131073 keys; the limit is 131072");
  world.check_offence(encode({.opcode = Opcode::kAdd, .number = 1, .keys = {"k"}}), "is no 64-bit integer");
}

TEST_CASE("a connection that never introduces itself is closed after the deadline") {
  StoreServerOptions options;
  options.handshake_timeout = std::chrono::milliseconds(500);
  LoggedStore world(options);
  RawStoreClient silent(world.store.port());
  RawStoreClient half(world.store.port());
  half.send(std::string_view("\0\xCE", 2));
  CHECK(silent.is_closed_by_server());
  CHECK(half.is_closed_by_server());
  CHECK_THAT(world.logged(), Catch::Matchers::Contains("it did not introduce itself within 500 ms"));
  CHECK(world.bystander_is_well());
}

TEST_CASE("half a message holds up nobody else") {
  LoggedStore world;
  RawStoreClient slow = RawStoreClient::introduced(world.store.port());
  slow.send("\x01" + str("slow") + u64(1000) + "only this");
  CHECK(world.bystander_is_well());
  slow.send(std::string(991, 'x'));
  CHECK(slow.ping());
}

TEST_CASE("while a client waits, its later requests wait too") {
  RunningStore store;
  RawStoreClient waiter = RawStoreClient::introduced(store.port());
  RawStoreClient setter = RawStoreClient::introduced(store.port());
  waiter.send(encode(wait_for("k")) + encode(get("k")) + encode(wait_for("l")) + encode(get("l")));
  setter.say(set("l", "2"));
  setter.say(set("k", "1"));
  CHECK(waiter.receive(20) ==
        std::string(1, kStopWaiting) + str("1") + std::string(1, kStopWaiting) + str("2"));
}

TEST_CASE("a wait is cancelled on the same connection") {
  RunningStore store;
  RawStoreClient client = RawStoreClient::introduced(store.port());
  client.send(encode(wait_for("k")) + encode({.opcode = Opcode::kCancelWait}));
  CHECK(client.receive(1) == std::string(1, kWaitCanceled));
  CHECK(client.ping());
}

TEST_CASE("a participant whose connection breaks leaves the barrier") {
  RunningStore store;
  const Request enter{.opcode = Opcode::kBarrier, .number = 2, .keys = {"b"}};
  {
    RawStoreClient gone = RawStoreClient::introduced(store.port());
    REQUIRE(gone.ping());
    gone.say(enter);
    gone.send(encode(set("entered", "")));  // held back: the barrier has not answered
  }
  while (store.call([&] { return store.server().connection_count(); }) > 0) std::this_thread::yield();
  RawStoreClient first = RawStoreClient::introduced(store.port());
  first.say(enter);
  RawStoreClient second = RawStoreClient::introduced(store.port());
  REQUIRE(second.ping());
  CHECK(::recv(first.fd(), nullptr, 0, MSG_PEEK | MSG_DONTWAIT) <= 0);
  second.say(enter);
  CHECK(second.receive(1) == std::string(1, kStopWaiting));
  CHECK(first.receive(1) == std::string(1, kStopWaiting));
}

TEST_CASE("values of eight megabytes go through") {
  RunningStore store;
  RawStoreClient client = RawStoreClient::introduced(store.port());
  const std::string value(8 * 1024 * 1024, 'v');
  client.say(set("k", value));
  client.say(get("k"));
  CHECK(client.receive(8 + value.size()) == str(value));
}

TEST_CASE("a client that does not read its replies does not fill the memory") {
  RunningStore store;
  RawStoreClient greedy = RawStoreClient::introduced(store.port());
  const std::string value(1024 * 1024, 'v');
  greedy.say(set("k", value));
  REQUIRE(greedy.ping());
  const std::size_t before = resident_bytes();

  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += encode(get("k"));
  REQUIRE(greedy.send(requests));
  RawStoreClient bystander = RawStoreClient::introduced(store.port());
  for (int i = 0; i < 100; ++i) REQUIRE(bystander.ping());
  CHECK(resident_bytes() < before + 64 * 1024 * 1024);  // 1,000 replies would be 1,000 MiB

  for (int i = 0; i < 1000; ++i) REQUIRE(greedy.receive(8 + value.size()).size() == 8 + value.size());
  CHECK(greedy.ping());
}

TEST_CASE("a client that is always behind with its replies does not fill the memory") {
#ifdef __SANITIZE_THREAD__
  return testing::skipped("ThreadSanitizer's shadow of the memory counts as resident, too");
#endif
  RunningStore store;
  RawStoreClient slow = RawStoreClient::introduced(store.port());
  const int small = 64 * 1024;
  ::setsockopt(slow.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  const std::string value(8 * 1024 * 1024, 'v');
  slow.say(set("k", value));
  REQUIRE(slow.ping());
  const std::size_t before = resident_bytes();

  constexpr std::size_t kReplies = 30;
  std::string requests;
  for (std::size_t i = 0; i < kReplies; ++i) requests += encode(get("k"));
  REQUIRE(slow.send(requests));
  std::size_t most = 0;
  const std::size_t all = kReplies * (8 + value.size());
  for (std::size_t read = 0; read < all;) {
    const std::size_t piece = std::min<std::size_t>(all - read, 256 * 1024);
    REQUIRE(slow.receive(piece).size() == piece);
    read += piece;
    most = std::max(most, resident_bytes());
  }
  CHECK(most < before + 64 * 1024 * 1024);  // with what was sent already it would be 240 MiB
  CHECK(slow.ping());
}

TEST_CASE("a client that sends on while it waits does not fill the memory") {
  RunningStore store;
  RawStoreClient greedy = RawStoreClient::introduced(store.port());
  greedy.say(wait_for("k"));
  const std::string request = encode(set("other", std::string(60000, 'v')));
  RawStoreClient bystander = RawStoreClient::introduced(store.port());
  const std::size_t before = resident_bytes();
  std::thread flood([&] {
    for (int i = 0; i < 4000; ++i) greedy.send(request);
  });
  for (int i = 0; i < 1000; ++i) bystander.ping();
  const std::size_t during = resident_bytes();
  bystander.say(set("k", ""));
  flood.join();
  CHECK(during < before + 64 * 1024 * 1024);  // all of it would be 240 MiB
  CHECK(greedy.receive(1) == std::string(1, kStopWaiting));
  CHECK(greedy.ping());
}

TEST_CASE("a generation begins with no keys, and the one before keeps its own") {
  RunningStore store;
  RawStoreClient old_client = RawStoreClient::introduced(store.port());
  old_client.say(set("k", "old"));
  REQUIRE(old_client.ping());
  store.call([&] { store.server().begin_generation(); });

  RawStoreClient new_client = RawStoreClient::introduced(store.port());
  new_client.say(get("k"));
  CHECK(new_client.receive(8) == str(""));
  new_client.say(set("k", "new"));
  REQUIRE(new_client.ping());
  old_client.say(get("k"));
  CHECK(old_client.receive(11) == str("old"));
}

TEST_CASE("who has connected before a generation begins, and is accepted after that, sees nothing of it") {
  RunningStore store;
  std::optional<RawStoreClient> straggler;
  store.call([&] {  // on the server's thread: it cannot accept meanwhile
    straggler.emplace(store.port());
    store.server().begin_generation();
  });
  RawStoreClient current = RawStoreClient::introduced(store.port());
  current.say(set("k", "new"));
  REQUIRE(current.ping());
  straggler->say({.opcode = Opcode::kValidate, .nonce = kValidateMagic});
  straggler->say(get("k"));
  CHECK(straggler->receive(8) == str(""));
  straggler->say(set("k", "old"));
  REQUIRE(straggler->ping());
  current.say(get("k"));
  CHECK(current.receive(11) == str("new"));
}

TEST_CASE("a peer of another protocol is handed over when its greeting is whole, with what came after it") {
  RunningStore store;
  std::promise<std::string> after;
  store.call([&] {
    store.server().set_peer_handler("DDPR", [&](boost::asio::ip::tcp::socket socket, std::string bytes) {
      boost::system::error_code ignored;
      socket.write_some(boost::asio::buffer("hello agent", 11), ignored);
      after.set_value(std::move(bytes));
    });
  });
  RawStoreClient agent(store.port());
  for (const std::string_view piece : {"D", "D", "PRUN hello"}) {
    REQUIRE(agent.send(piece));
    std::this_thread::yield();
  }
  CHECK(after.get_future().get() == "UN hello");
  CHECK(agent.receive(11) == "hello agent");
  CHECK(agent.is_closed_by_server());
}

TEST_CASE("part of a greeting is closed after the deadline, and what goes on otherwise at once") {
  LoggedStore world({.handshake_timeout = std::chrono::seconds(1)});
  world.store.call([&] {
    world.store.server().set_peer_handler("DDPR", [](boost::asio::ip::tcp::socket, std::string) {});
  });
  RawStoreClient part(world.store.port());
  part.send("DDP");
  RawStoreClient other(world.store.port());
  other.send("DDoS");
  CHECK(other.is_closed_by_server());
  CHECK_THAT(world.logged(), Catch::Matchers::Contains("it began with byte 0x44"));
  CHECK(part.is_closed_by_server());
  CHECK_THAT(world.logged(), Catch::Matchers::Contains("it did not introduce itself within 1.0 s"));
  CHECK(world.bystander_is_well());
}

TEST_CASE("part of a greeting does not outlive the server") {
  auto store = std::make_unique<RunningStore>();
  store->call(
      [&] { store->server().set_peer_handler("DDPR", [](boost::asio::ip::tcp::socket, std::string) {}); });
  RawStoreClient stranger(store->port());
  stranger.send("D");
  store->call([&] { store->server().close(); });
  CHECK(stranger.is_closed_by_server());
  store.reset();  // returns only if nothing is pending
}

TEST_CASE("a store client from an address that is not let in is closed") {
  LoggedStore world;
  world.store.call([&] {
    world.store.server().set_address_filter([](const boost::asio::ip::address& address) {
      return address != boost::asio::ip::make_address("127.0.0.1");
    });
  });
  RawStoreClient client = RawStoreClient::introduced(world.store.port());
  CHECK(client.is_closed_by_server());
  CHECK_THAT(world.logged(), Catch::Matchers::Contains("its address belongs to no member of the job"));
}

TEST_CASE("a server on every address sees IPv4 clients under their IPv4 address") {
  RunningStore store({.at = {.host = "::"}});
  std::promise<std::string> seen;
  store.call([&] {
    store.server().set_address_filter([&](const boost::asio::ip::address& address) {
      seen.set_value(address.to_string());
      return true;
    });
  });
  RawStoreClient client = RawStoreClient::introduced(store.port());
  CHECK(seen.get_future().get() == "127.0.0.1");
}

TEST_CASE("closing the server closes its clients, and every descriptor") {
  const std::size_t before = open_descriptors();
  {
    RunningStore store;
    RawStoreClient client = RawStoreClient::introduced(store.port());
    RawStoreClient waiter = RawStoreClient::introduced(store.port());
    waiter.say(wait_for("k"));
    REQUIRE(client.ping());
    store.call([&] { store.server().close(); });
    CHECK(client.is_closed_by_server());
    CHECK(waiter.is_closed_by_server());
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("clients that come and go leave nothing behind") {
  RunningStore store;
  RawStoreClient stays = RawStoreClient::introduced(store.port());
  REQUIRE(stays.ping());
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i) {
    RawStoreClient passer_by = RawStoreClient::introduced(store.port());
    REQUIRE(passer_by.ping());
    passer_by.say(wait_for("never"));
  }
  while (store.call([&] { return store.server().connection_count(); }) > 1) std::this_thread::yield();
  CHECK(open_descriptors() == before);
}
