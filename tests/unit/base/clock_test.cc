#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a deadline passed down is never restarted") {
  testing::FakeClock clock;
  const Deadline deadline = Deadline::after(clock.now(), 10s);
  clock.advance(7s);
  CHECK(deadline.remaining(clock.now()) == 3s);
  clock.advance(4s);
  CHECK(deadline.is_expired(clock.now()));
  CHECK(deadline.remaining(clock.now()) == 0s);
}

TEST_CASE("never does not come") {
  CHECK(Deadline::never().is_never());
  CHECK_FALSE(Deadline::never().is_expired(TimePoint{} + 100000h));
}
