#include "launcher/why/hang/hang_policy.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_why/made_hangs.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::launcher::why;

TEST_CASE("a job without progress is looked at when the first limit is over, and not before") {
  HangPolicy policy = quiet_since_0();
  CHECK_FALSE(policy.note(waiting(), 9));
  CHECK(policy.note(waiting(), 10));
}

TEST_CASE("a collective that begins or ends on any rank is progress") {
  HangPolicy policy = quiet_since_0();
  CHECK_FALSE(policy.note(waiting(8), 9));
  CHECK_FALSE(policy.note(waiting(8), 12));
  CHECK(policy.note(waiting(8), 19));
}

TEST_CASE("where nothing is recorded, a rank that computes is progress") {
  HangPolicy policy(kLimits, 0);
  CHECK_FALSE(policy.note({{.pid = 1, .is_busy = true}, {.pid = 2}}, 30));
  CHECK_FALSE(policy.note({{.pid = 1}, {.pid = 2}}, 39));
  CHECK(policy.note({{.pid = 1}, {.pid = 2}}, 40));
}

TEST_CASE("what a rank with libddprun tells is progress, and nothing else of a rank that tells") {
  HangPolicy policy(kLimits, 0);
  const auto told = [](std::uint64_t beats) {
    return std::vector<Pulse>{{.pid = 1, .records = true, .beats = beats, .is_busy = true}, {.pid = 2}};
  };
  policy.note(told(1), 0);
  CHECK_FALSE(policy.note(told(2), 9));
  CHECK(policy.has_moved());
  CHECK_FALSE(policy.note(told(2), 18));
  CHECK_FALSE(policy.has_moved());
  CHECK(policy.note(told(2), 19));
}

TEST_CASE(
    "what comes from another rank is progress, and a connection that is told of no more, or again, is not") {
  HangPolicy policy(kLimits, 0);
  const auto received = [](std::map<std::string, std::uint64_t> bytes) {
    return std::vector<Pulse>{{.rank = 0, .pid = 1, .records = true},
                              {.rank = 1, .pid = 2, .records = true, .received = std::move(bytes)}};
  };
  policy.note(received({{"a", 100}}), 0);
  CHECK_FALSE(policy.note(received({{"a", 200}}), 9));
  CHECK(policy.has_moved());
  CHECK_FALSE(policy.note(received({}), 18));
  CHECK_FALSE(policy.has_moved());
  CHECK(policy.note(received({{"a", 300}, {"b", 1}}), 19));
}

TEST_CASE("what comes from another rank counts, and what comes from elsewhere, or from itself, does not") {
  std::vector<Pulse> pulses(2);
  add_messages(pulses, {{{"1", {.local = "a:50", .remote = "a:60", .bytes = 1}},
                         {"2", {.local = "a:51", .remote = "a:80", .bytes = 2}}},
                        {{"4", {.local = "a:60", .remote = "a:50", .bytes = 4}},
                         {"5", {.local = "a:61", .remote = "a:62", .bytes = 5}},
                         {"6", {.local = "a:62", .remote = "a:61", .bytes = 6}}}});
  CHECK(pulses[0].received == std::map<std::string, std::uint64_t>{{"a:60", 1}});
  CHECK(pulses[1].received == std::map<std::string, std::uint64_t>{{"a:50", 4}});
}

TEST_CASE("what other nodes are told of is progress that a rank has shown, and not that it computes") {
  HangPolicy policy(kLimits, 0);
  policy.note({{.pid = 1}, {.pid = 2}}, 1);
  policy.note({{.pid = 1, .is_busy = true}, {.pid = 2}}, 5);
  CHECK(policy.quiet_s(5) == 0);
  CHECK(policy.shown_at() == 1);
  policy.note({{.pid = 1, .beats = 1}, {.pid = 2}}, 6);
  CHECK(policy.shown_at() == 6);
  policy.note({{.pid = 1, .beats = 1, .received = {{"a", 1}}}, {.pid = 2}}, 7);
  policy.note({{.pid = 1, .beats = 1, .received = {{"a", 2}}}, {.pid = 2}}, 8);
  CHECK(policy.shown_at() == 8);
}

TEST_CASE("a script that goes on to its next program gets on") {
  HangPolicy policy(kLimits, 0);
  policy.note({{.pid = 1}, {.pid = 2}}, 0);
  CHECK_FALSE(policy.note({{.pid = 3}, {.pid = 2}}, 10));
}

TEST_CASE("where nobody asked, only programs with libtorch are looked at") {
  HangPolicy policy({.report_s = 10, .is_asked = false}, 0);
  CHECK_FALSE(policy.note({{.pid = 1}}, 30));
  CHECK(policy.note({{.pid = 1, .has_torch = true}}, 40));
}
