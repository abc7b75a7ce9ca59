#include "worker/runtime/rpc/python_words.h"

#include "tests/support/catch.h"

#include <string>

namespace ddprun::runtime {
namespace {

using namespace std::string_literals;  // NOLINT

/// What pickle.dumps (protocol 4) makes in Python 3.11 of PythonUDF(_gather_to_leader, ("ab0", "b", None, {"a"}), {}).
const std::string kPythonsGather =
    "\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00"s
    "\x8c\x1etorch.distributed.rpc.internal\x94\x8c\x09PythonUDF\x94\x93\x94"s
    "\x8c\x19torch.distributed.rpc.api\x94\x8c\x11_gather_to_leader\x94\x93\x94"s
    "(\x8c\x03"s
    "ab0\x94\x8c\x01"s
    "b\x94N\x8f\x94(\x8c\x01"s
    "a\x94\x90t\x94}\x94\x87\x94\x81\x94."s;

TEST_CASE("Python's word of having come is understood") {
  const auto call = read_gather_call(kPythonsGather);
  REQUIRE(call);
  CHECK(call->kind == GatherCall::Kind::kArrived);
  CHECK(call->sequence == "ab0");
  CHECK(call->worker == "b");
}

TEST_CASE("our own words are understood as well") {
  const auto gather = read_gather_call(pickled_gather("ab0", "b", {"a", "b"}));
  REQUIRE(gather);
  CHECK(gather->worker == "b");
  const auto broadcast = read_gather_call(pickled_broadcast("ab0", {"a", "b"}));
  REQUIRE(broadcast);
  CHECK(broadcast->kind == GatherCall::Kind::kAllArrived);
  CHECK(broadcast->sequence == "ab0");
  const auto loss = read_gather_call(pickled_loss("ab0", "b", {"a", "b"}));
  REQUIRE(loss);
  CHECK(loss->kind == GatherCall::Kind::kLost);
  CHECK(loss->sequence == "ab0");
  CHECK(loss->worker == "b");
}

TEST_CASE("what is cut off, or another call, is none of these words") {
  for (std::size_t length = 0; length < kPythonsGather.size(); ++length)
    CHECK_FALSE(read_gather_call(kPythonsGather.substr(0, length)));
  CHECK_FALSE(read_gather_call(pickled_none()));
  std::string other = kPythonsGather;
  other.replace(other.find("_gather"), 7, "_remove");
  CHECK_FALSE(read_gather_call(other));
}

TEST_CASE("meetings are numbered after all names in order") {
  CHECK(sequence_name({"berta", "anna"}, 3) == "annaberta3");
}

}  // namespace
}  // namespace ddprun::runtime
