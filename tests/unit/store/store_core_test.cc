#include "rendezvous/store/store_core.h"

#include "tests/support/catch.h"

#include <limits>

using namespace ddprun;
using namespace ddprun::store;

namespace {

std::string i64(std::int64_t value) {
  std::string bytes;
  append_i64(bytes, value);
  return bytes;
}

std::string str(std::string_view text) {
  std::string bytes;
  append_string(bytes, text);
  return bytes;
}

const std::string kStop(1, kStopWaiting);
const std::string kCancelled(1, kWaitCanceled);
const std::string kSilence;

// A client that keeps what it is sent. `say` speaks and returns what has come since the last time.
class Client final : public StoreClient {
 public:
  explicit Client(StoreCore& core) : core_(core) {}
  ~Client() { core_.disconnect(*this); }

  void send(std::string_view bytes) override { received_ += bytes; }

  std::string heard() { return std::exchange(received_, {}); }
  Result<void> try_say(Request request) { return core_.serve(*this, request); }
  std::string say(Request request) {
    try_say(std::move(request)).value();
    return heard();
  }

  std::string set(std::string_view key, std::string_view value) {
    return say({.opcode = Opcode::kSet, .keys = {key}, .values = {value}});
  }
  std::string get(std::string_view key) { return say({.opcode = Opcode::kGet, .keys = {key}}); }
  std::string add(std::string_view key, std::int64_t delta) {
    return say({.opcode = Opcode::kAdd, .number = delta, .keys = {key}});
  }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    return say({.opcode = Opcode::kCompareSet, .keys = {key}, .values = {expected, desired}});
  }
  std::string wait(std::vector<std::string_view> keys) {
    return say({.opcode = Opcode::kWait, .keys = std::move(keys)});
  }
  std::string check(std::vector<std::string_view> keys) {
    return say({.opcode = Opcode::kCheck, .keys = std::move(keys)});
  }
  std::string remove(std::string_view key) { return say({.opcode = Opcode::kDeleteKey, .keys = {key}}); }
  std::string push(std::string_view key, std::string_view value) {
    return say({.opcode = Opcode::kQueuePush, .keys = {key}, .values = {value}});
  }
  std::string pop(std::string_view key) { return say({.opcode = Opcode::kQueuePop, .keys = {key}}); }
  std::string barrier(std::string_view key, std::int64_t world) {
    return say({.opcode = Opcode::kBarrier, .number = world, .keys = {key}});
  }
  std::string cancel() { return say({.opcode = Opcode::kCancelWait}); }

 private:
  StoreCore& core_;
  std::string received_;
};

struct World {
  StoreCore core{Limits{}};
  Client a{core};
  Client b{core};
  Client c{core};
};

}  // namespace

TEST_CASE("a value that was set is got, by anybody") {
  World world;
  CHECK(world.a.set("k", "one") == kSilence);
  CHECK(world.b.get("k") == str("one"));
  world.b.set("k", "two");
  CHECK(world.a.get("k") == str("two"));
}

TEST_CASE("a missing key is got as an empty value") {
  World world;
  CHECK(world.a.get("k") == str(""));
}

TEST_CASE("add counts from nothing and keeps decimal text") {
  World world;
  CHECK(world.a.add("k", 5) == i64(5));
  CHECK(world.a.add("k", -7) == i64(-2));
  CHECK(world.a.get("k") == str("-2"));
}

TEST_CASE("add reads what std::stoll reads") {
  World world;
  world.a.set("k", " 12abc");
  CHECK(world.a.add("k", 1) == i64(13));
}

TEST_CASE("add to a value that is no number is refused") {
  World world;
  world.a.set("k", "abc");
  CHECK(world.a.try_say({.opcode = Opcode::kAdd, .number = 1, .keys = {"k"}}).error().message() ==
        "ADD to key \"k\", whose value of 3 bytes is no 64-bit integer");
  world.a.set("k", "");
  CHECK(world.a.try_say({.opcode = Opcode::kAdd, .number = 1, .keys = {"k"}}).has_error());
}

TEST_CASE("add that overflows is refused and changes nothing") {
  World world;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  world.a.add("k", most);
  CHECK(world.a.try_say({.opcode = Opcode::kAdd, .number = 1, .keys = {"k"}}).error().message() ==
        "ADD of 1 to key \"k\" overflows its value 9223372036854775807");
  CHECK(world.b.get("k") == str("9223372036854775807"));
}

TEST_CASE("compare-and-set sets a missing key when nothing is expected") {
  World world;
  CHECK(world.a.compare_set("k", "", "new") == str("new"));
  CHECK(world.a.get("k") == str("new"));
}

TEST_CASE("compare-and-set of a missing key answers the expectation and stores nothing") {
  World world;
  CHECK(world.a.compare_set("k", "old", "new") == str("old"));
  CHECK(world.a.get("k") == str(""));
}

TEST_CASE("compare-and-set replaces what is expected and answers what is there otherwise") {
  World world;
  world.a.set("k", "old");
  CHECK(world.a.compare_set("k", "other", "new") == str("old"));
  CHECK(world.a.compare_set("k", "old", "new") == str("new"));
  CHECK(world.a.get("k") == str("new"));
}

TEST_CASE("a compare-and-set that fails wakes nobody") {
  World world;
  CHECK(world.a.wait({"k"}) == kSilence);
  world.b.compare_set("k", "old", "new");
  CHECK(world.a.heard() == kSilence);
  world.b.compare_set("k", "", "new");
  CHECK(world.a.heard() == kStop);
}

TEST_CASE("wait is answered at once when all keys are there, and for no keys") {
  World world;
  world.a.set("k", "");
  CHECK(world.b.wait({"k", "k"}) == kStop);
  CHECK(world.b.wait({}) == kStop);
  CHECK(world.b.check({}) == std::string(1, kReady));
}

TEST_CASE("wait is answered when the last key arrives, by whatever stores it") {
  World world;
  CHECK(world.a.wait({"set", "add", "append", "cas", "multi"}) == kSilence);
  CHECK(world.a.is_waiting());
  world.b.set("set", "1");
  world.b.add("add", 1);
  world.b.say({.opcode = Opcode::kAppend, .keys = {"append"}, .values = {"1"}});
  world.b.compare_set("cas", "", "1");
  CHECK(world.a.heard() == kSilence);
  world.b.say({.opcode = Opcode::kMultiSet, .keys = {"multi"}, .values = {"1"}});
  CHECK(world.a.heard() == kStop);
  CHECK_FALSE(world.a.is_waiting());
}

TEST_CASE("a value wakes everybody who waits for it") {
  World world;
  world.a.wait({"k"});
  world.b.wait({"k"});
  world.c.set("k", "v");
  CHECK(world.a.heard() == kStop);
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("a key that is named twice is answered once") {
  World world;
  world.a.wait({"k", "k"});
  world.b.set("k", "v");
  CHECK(world.a.heard() == kStop);
}

TEST_CASE("wait means all keys at the same time") {
  World world;
  world.a.wait({"first", "second"});
  world.b.set("first", "v");
  world.b.remove("first");
  world.b.set("second", "v");
  CHECK(world.a.heard() == kSilence);
  world.b.set("first", "v");
  CHECK(world.a.heard() == kStop);
}

TEST_CASE("a multi-set is seen whole by those it wakes") {
  World world;
  world.a.wait({"x"});
  world.b.say({.opcode = Opcode::kMultiSet, .keys = {"x", "y"}, .values = {"1", "2"}});
  CHECK(world.a.heard() == kStop);
  CHECK(world.a.say({.opcode = Opcode::kMultiGet, .keys = {"y", "x", "z"}}) == str("2") + str("1") + str(""));
}

TEST_CASE("a multi-get whose reply would be huge is refused") {
  StoreCore core(Limits{.max_reply_bytes = 40});
  Client client(core);
  client.set("k", "0123456789");
  CHECK(client.say({.opcode = Opcode::kMultiGet, .keys = {"k", "k"}}) ==
        str("0123456789") + str("0123456789"));
  CHECK(client.try_say({.opcode = Opcode::kMultiGet, .keys = {"k", "k", "k"}}).error().message() ==
        "MULTI_GET of 3 keys whose values have 54 bytes in all; the limit is 40");
}

TEST_CASE("a cancelled wait is over, and leaves nothing behind") {
  World world;
  world.a.wait({"x", "y"});
  CHECK(world.a.cancel() == kCancelled);
  CHECK(world.core.wait_count() == 0);
  world.b.set("x", "1");
  world.b.set("y", "1");
  CHECK(world.a.heard() == kSilence);
}

TEST_CASE("a cancel that comes too late is answered all the same") {
  World world;
  world.a.wait({"x"});
  world.b.set("x", "1");
  CHECK(world.a.heard() == kStop);
  CHECK(world.a.cancel() == kCancelled);
}

TEST_CASE("a wait that was cancelled does not shorten the next one") {
  World world;
  world.a.wait({"x"});
  world.a.cancel();
  world.a.wait({"y", "z"});
  world.b.set("x", "1");
  world.b.set("y", "1");
  CHECK(world.a.heard() == kSilence);
  world.b.set("z", "1");
  CHECK(world.a.heard() == kStop);
}

TEST_CASE("a client that leaves while it waits is forgotten") {
  World world;
  {
    Client gone(world.core);
    gone.wait({"x", "y"});
    CHECK(world.core.wait_count() == 2);
  }
  CHECK(world.core.wait_count() == 0);
  world.a.set("x", "1");
}

TEST_CASE("delete tells whether there was something") {
  World world;
  world.a.set("k", "v");
  CHECK(world.a.remove("k") == i64(1));
  CHECK(world.a.remove("k") == i64(0));
  CHECK(world.a.check({"k"}) == std::string(1, kNotReady));
}

TEST_CASE("append extends a value or begins one") {
  World world;
  world.a.say({.opcode = Opcode::kAppend, .keys = {"k"}, .values = {"po"}});
  world.a.say({.opcode = Opcode::kAppend, .keys = {"k"}, .values = {"em"}});
  CHECK(world.a.get("k") == str("poem"));
}

TEST_CASE("queues give back in order, with the size before each pop") {
  World world;
  world.a.push("q", "1");
  world.a.push("q", "2");
  CHECK(world.a.say({.opcode = Opcode::kQueueLen, .keys = {"q"}}) == i64(2));
  CHECK(world.a.pop("q") == i64(2) + str("1"));
  CHECK(world.a.pop("q") == i64(1) + str("2"));
  CHECK(world.a.pop("q") == i64(0));
}

TEST_CASE("keys are counted and listed, queues are not") {
  World world;
  world.a.set("k", "v");
  world.a.push("q", "1");
  CHECK(world.a.say({.opcode = Opcode::kGetNumKeys}) == i64(1));
  CHECK(world.a.say({.opcode = Opcode::kListKeys}) == i64(1) + str("k"));
  CHECK(world.a.remove("q") == i64(0));
}

TEST_CASE("a queue with an item counts as present") {
  World world;
  world.a.push("q", "1");
  CHECK(world.a.check({"q"}) == std::string(1, kReady));
  CHECK(world.a.wait({"q"}) == kStop);
}

TEST_CASE("a wait for a ready queue and a missing key ends when the key comes") {
  World world;
  world.a.push("q", "1");
  CHECK(world.a.wait({"q", "k"}) == kSilence);
  world.b.set("k", "v");
  CHECK(world.a.heard() == kStop);
}

TEST_CASE("an item of a queue wakes one waiter, the first") {
  World world;
  world.a.wait({"q"});
  world.b.wait({"q"});
  world.c.push("q", "1");
  CHECK(world.a.heard() == kStop);
  CHECK(world.b.heard() == kSilence);
  world.c.push("q", "2");
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("an item skips a waiter that still misses something else") {
  World world;
  world.a.wait({"q", "k"});
  world.b.wait({"q"});
  world.c.push("q", "1");
  CHECK(world.a.heard() == kSilence);
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("a waiter that was woken and fetches leaves the next one asleep") {
  World world;
  world.a.wait({"q"});
  world.b.wait({"q"});
  world.c.push("q", "1");
  world.a.heard();
  CHECK(world.a.pop("q") == i64(1) + str("1"));
  CHECK(world.b.heard() == kSilence);
  world.c.push("q", "2");
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("an item whose waiter died wakes the next") {
  World world;
  {
    Client gone(world.core);
    gone.wait({"q"});
    world.a.wait({"q"});
    world.c.push("q", "1");
    CHECK(gone.heard() == kStop);
  }
  CHECK(world.a.heard() == kStop);
}

TEST_CASE("an item whose waiter gave up in that moment wakes the next") {
  World world;
  world.a.wait({"q"});
  world.b.wait({"q"});
  world.c.push("q", "1");
  CHECK(world.a.cancel() == kStop + kCancelled);
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("a value under a queue's name wakes all who were left asleep") {
  World world;
  world.a.wait({"q"});
  world.b.wait({"q"});
  world.c.push("q", "1");
  world.c.set("q", "value");
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("a thousand queue waits leave no trace") {
  World world;
  for (int i = 0; i < 1000; ++i) {
    world.a.wait({"q"});
    world.b.push("q", "x");
    world.a.pop("q");
  }
  CHECK(world.core.wait_count() == 0);
}

TEST_CASE("a barrier opens for all when the last one comes") {
  World world;
  CHECK(world.a.barrier("b", 3) == kSilence);
  CHECK(world.b.barrier("b", 3) == kSilence);
  CHECK(world.c.barrier("b", 3) == kStop);
  CHECK(world.a.heard() == kStop);
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("a barrier that has opened stays open") {
  World world;
  world.a.barrier("b", 1);
  CHECK(world.b.barrier("b", 1) == kStop);
}

TEST_CASE("a participant that gives up does not count") {
  World world;
  world.a.barrier("b", 2);
  CHECK(world.a.cancel() == kCancelled);
  CHECK(world.b.barrier("b", 2) == kSilence);
  CHECK(world.a.barrier("b", 2) == kStop);
  CHECK(world.b.heard() == kStop);
}

TEST_CASE("a participant that dies does not count") {
  World world;
  {
    Client gone(world.core);
    gone.barrier("b", 2);
  }
  CHECK(world.a.barrier("b", 2) == kSilence);
  CHECK(world.b.barrier("b", 2) == kStop);
}

TEST_CASE("ping is echoed") {
  World world;
  std::string nonce;
  append_u32(nonce, 4711);
  CHECK(world.a.say({.opcode = Opcode::kPing, .nonce = 4711}) == nonce);
}

TEST_CASE("validate insists on the magic") {
  World world;
  CHECK(world.a.say({.opcode = Opcode::kValidate, .nonce = kValidateMagic}) == kSilence);
  CHECK(world.a.try_say({.opcode = Opcode::kValidate, .nonce = 1}).error().message() ==
        "VALIDATE with 0x00000001 instead of 0x3c85f7ce: not a TCPStore client of this byte order");
}
