#include "launcher/why/verdict/straggler_watch.h"

#include "launcher/why/hang/hang_process.h"
#include "tests/support/catch.h"

#include <cstdint>
#include <optional>
#include <variant>

using namespace ddprun::launcher::why;
using ddprun::launcher::Hang;
using ddprun::launcher::Straggler;

namespace {

const Straggler kSlow{.rank = 1, .late_s = 0.3, .share = 0.5};
const Straggler kOther{.rank = 2, .late_s = 0.1, .share = 0.25};
const Straggler kNone{};

/// Looks between which the ranks get on.
class Looks {
 public:
  std::optional<Straggler> note(const Straggler& found) { return watch_.note(begun_ += 10, found); }

 private:
  StragglerWatch watch_;
  std::uint64_t begun_ = 0;
};

}  // namespace

TEST_CASE("a rank that is late in three looks in turn is told, and once") {
  Looks watch;
  CHECK_FALSE(watch.note(kSlow));
  CHECK_FALSE(watch.note(kSlow));
  const auto told = watch.note(kSlow);
  REQUIRE(told);
  CHECK(told->rank == 1);
  CHECK(told->late_s == 0.3);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(watch.note(kSlow));
}

TEST_CASE("a rank that was late now and then is not told") {
  Looks watch;
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(watch.note(kSlow));
    CHECK_FALSE(watch.note(kSlow));
    CHECK_FALSE(watch.note(i % 2 == 0 ? kNone : kOther));
  }
}

TEST_CASE("a rank that is late again after it was not, and another one, are told anew") {
  Looks watch;
  const auto told = [&](const Straggler& straggler) {
    std::optional<Straggler> last;
    for (int i = 0; i < StragglerWatch::kLooks; ++i) last = watch.note(straggler);
    return last ? last->rank : -1;
  };
  CHECK(told(kSlow) == 1);
  CHECK(told(kOther) == 2);
  CHECK(told(kNone) == -1);
  CHECK(told(kOther) == 2);
}

TEST_CASE("looks at the same collectives are one") {
  StragglerWatch watch;
  CHECK_FALSE(watch.note(10, kSlow));
  for (int i = 0; i < 10; ++i) CHECK_FALSE(watch.note(11, kSlow));
  CHECK_FALSE(watch.note(14, kSlow));
  CHECK(watch.note(20, kSlow));
  CHECK_FALSE(watch.note(3, kNone));  // another generation counts anew
}

TEST_CASE("what the watching process says arrives as it was said") {
  const auto straggler = parse_news(to_text(kSlow));
  REQUIRE(straggler);
  CHECK(std::get<Straggler>(*straggler).share == 0.5);
  const auto hang = parse_news(
      to_text(Hang{.ends = true, .guilty = {1, 2}, .have_ended = true, .reason = "because", .page = "a\nb"}));
  REQUIRE(hang);
  CHECK(std::get<Hang>(*hang).ends);
  CHECK(std::get<Hang>(*hang).guilty == std::vector{1, 2});
  CHECK(std::get<Hang>(*hang).have_ended);
  CHECK(std::get<Hang>(*hang).page == "a\nb");
  CHECK_FALSE(parse_news("nothing"));
  CHECK_FALSE(parse_news("{\"late_s\": \"x\"}"));
}
