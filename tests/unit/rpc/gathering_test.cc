#include "worker/runtime/rpc/gathering.h"

#include "tests/support/catch.h"

#include <chrono>
#include <set>
#include <string>

namespace ddprun::runtime {
namespace {

const std::set<std::string> kBoth{"anna", "berta"};

GatherCall arrival(const std::string& worker) {
  return {.kind = GatherCall::Kind::kArrived, .sequence = "annaberta0", .worker = worker};
}

TEST_CASE("a leader waits for all, and knows who is missing") {
  Gathering gathering;
  gathering.hear(arrival("berta"));
  CHECK(gathering.missing("annaberta0", kBoth) == std::set<std::string>{"anna"});
  gathering.hear(arrival("anna"));
  CHECK(gathering.missing("annaberta0", kBoth).empty());
}

TEST_CASE("who follows waits for the leader's word alone") {
  Gathering gathering;
  gathering.hear({.kind = GatherCall::Kind::kAllArrived, .sequence = "annaberta0", .worker = {}});
  CHECK(gathering.missing("annaberta0", kBoth).empty());
}

TEST_CASE("who follows hears who is gone, and waits no longer") {
  Gathering gathering;
  CHECK(gathering.lost().empty());
  gathering.hear({.kind = GatherCall::Kind::kLost, .sequence = "annaberta0", .worker = "anna"});
  CHECK(gathering.wait_until("annaberta0", kBoth, std::chrono::steady_clock::now()));
  CHECK(gathering.lost() == "anna");
  CHECK(gathering.missing("annaberta0", kBoth) == kBoth);
}

TEST_CASE("meetings are told from each other") {
  Gathering gathering;
  gathering.hear({.kind = GatherCall::Kind::kAllArrived, .sequence = "annaberta0", .worker = {}});
  CHECK(gathering.missing("annaberta1", kBoth) == kBoth);
}

}  // namespace
}  // namespace ddprun::runtime
