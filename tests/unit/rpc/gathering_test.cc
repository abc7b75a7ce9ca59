#include "worker/runtime/rpc/gathering.h"

#include "tests/support/catch.h"

#include <set>
#include <string>

namespace ddprun::runtime {
namespace {

const std::set<std::string> kBoth{"anna", "berta"};

GatherCall arrival(const std::string& worker) {
  return {.is_broadcast = false, .sequence = "annaberta0", .worker = worker};
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
  gathering.hear({.is_broadcast = true, .sequence = "annaberta0", .worker = {}});
  CHECK(gathering.missing("annaberta0", kBoth).empty());
}

TEST_CASE("meetings are told from each other") {
  Gathering gathering;
  gathering.hear({.is_broadcast = true, .sequence = "annaberta0", .worker = {}});
  CHECK(gathering.missing("annaberta1", kBoth) == kBoth);
}

}  // namespace
}  // namespace ddprun::runtime
