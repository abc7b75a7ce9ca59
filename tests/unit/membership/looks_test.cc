#include "rendezvous/membership/looks.h"

#include "tests/support/catch.h"

#include <string>

using namespace ddprun;
using namespace ddprun::membership;

namespace {

constexpr ConnectionId kA(1), kB(2), kC(3);

}  // namespace

TEST_CASE("an answer goes to who has asked, under the number that it gave, and with who says it") {
  Looks looks;
  const LookRequest request = looks.begin(kA, 7, {kB, kC});
  const auto forward = looks.answered(kB, {.number = request.number, .text = "ranks", .is_last = true});
  REQUIRE(forward.has_value());
  CHECK(forward->to == kA);
  CHECK(forward->answer.number == 7);
  CHECK(forward->answer.from == kB.value());
  CHECK(forward->answer.text == "ranks");
}

TEST_CASE("what nobody has asked for, or not this node, or not any more, goes nowhere") {
  Looks looks;
  const LookRequest old = looks.begin(kA, 1, {kB});
  CHECK_FALSE(looks.answered(kC, {.number = old.number}).has_value());
  CHECK_FALSE(looks.answered(kB, {.number = old.number + 5}).has_value());
  const LookRequest newer = looks.begin(kA, 2, {kB});
  CHECK_FALSE(looks.answered(kB, {.number = old.number}).has_value());
  CHECK(looks.answered(kB, {.number = newer.number, .is_last = true}).has_value());
  CHECK_FALSE(looks.answered(kB, {.number = newer.number}).has_value());
}

TEST_CASE("two agents ask at the same time and both are answered") {
  Looks looks;
  const LookRequest of_a = looks.begin(kA, 1, {kB, kC});
  const LookRequest of_b = looks.begin(kB, 1, {kA, kC});
  CHECK(looks.answered(kC, {.number = of_a.number})->to == kA);
  CHECK(looks.answered(kC, {.number = of_b.number})->to == kB);
}

TEST_CASE("an agent that asks for numbers again and again is still answered why") {
  Looks looks;
  const LookRequest why = looks.begin(kA, 1, {kB});
  const LookRequest old = looks.begin(kA, 2, {kB}, LookKind::kNumbers);
  const LookRequest numbers = looks.begin(kA, 3, {kB}, LookKind::kNumbers);
  CHECK(why.kind == LookKind::kWhy);
  CHECK(numbers.kind == LookKind::kNumbers);
  CHECK_FALSE(looks.answered(kB, {.number = old.number}).has_value());
  CHECK(looks.answered(kB, {.number = numbers.number})->answer.number == 3);
  CHECK(looks.answered(kB, {.number = why.number})->answer.number == 1);
}

TEST_CASE("a node that says more than its share is cut off") {
  Looks looks;
  const LookRequest request = looks.begin(kA, 1, {kB});
  CHECK(request.most_bytes == Looks::kMostBytes);
  for (std::size_t said = 0; said + kMaxLookBytes <= request.most_bytes; said += kMaxLookBytes) {
    CHECK_FALSE(looks.answered(kB, {.number = request.number, .text = std::string(kMaxLookBytes, 'x')})
                    ->answer.is_last);
  }
  const auto last = looks.answered(kB, {.number = request.number, .text = std::string(kMaxLookBytes, 'x')});
  CHECK(last->answer.is_last);
  CHECK(last->answer.text.empty());
  CHECK_FALSE(looks.answered(kB, {.number = request.number}).has_value());
}

TEST_CASE("parts that say nothing are not passed on for ever") {
  Looks looks;
  const LookRequest request = looks.begin(kA, 1, {kB});
  std::size_t parts = 0;
  while (!looks.answered(kB, {.number = request.number})->answer.is_last) ++parts;
  CHECK(parts == Looks::kMostBytes / Looks::kLeastCost);
}

TEST_CASE("a part that came in one frame goes on in one") {
  Looks looks;
  const LookRequest request = looks.begin(kA, 1, {kB});
  auto forward =
      looks.answered(kB, {.number = request.number, .text = std::string(kMaxLookBytes - 1, '\x01') + "\n"});
  forward->answer.node = std::string(256, 'n');
  CHECK(encode(forward->answer).size() < kMaxFrameBytes);
  CHECK(forward->answer.text.ends_with(" \n"));
}

TEST_CASE("the share of each of many nodes is small") {
  Looks looks;
  CHECK(looks.begin(kA, 1, std::vector<ConnectionId>(1000, kB)).most_bytes == Looks::kLeastBytes);
}

TEST_CASE("a node that is lost while it is waited for is said to have answered, and an asker is forgotten") {
  Looks looks;
  const LookRequest request = looks.begin(kA, 1, {kB, kC});
  const auto forwards = looks.gone(kB);
  REQUIRE(forwards.size() == 1);
  CHECK(forwards.front().to == kA);
  CHECK(forwards.front().answer.is_last);
  CHECK(forwards.front().answer.from == kB.value());
  CHECK(looks.gone(kA).empty());
  CHECK_FALSE(looks.answered(kC, {.number = request.number}).has_value());
}
