#include "worker/training/being_saved.h"

#include "tests/support/catch.h"

using namespace ddprun::training;

namespace {

Position position_at(std::int64_t step) {
  Position position;
  position.step = step;
  return position;
}

}  // namespace

TEST_CASE("of checkpoints that a full disk refuses nothing is kept") {
  BeingSaved being_saved;
  for (std::int64_t step = 1; step <= 1000; ++step) {
    being_saved.add(position_at(step));
    if (step > 2) being_saved.failed(step - 2);  // two are on their way
  }
  CHECK(being_saved.count() == 2);
  CHECK(being_saved.saved(1000).step == 1000);
}

TEST_CASE("a checkpoint is known until a later one is, and of those that were left out nobody asks") {
  BeingSaved being_saved;
  for (const std::int64_t step : {1, 2, 3, 4}) being_saved.add(position_at(step));
  CHECK(being_saved.saved(1).step == 1);
  CHECK(being_saved.saved(1).step == 1);  // among the best as well
  CHECK(being_saved.saved(3).step == 3);
  being_saved.failed(3);  // as one of the best
  CHECK(being_saved.saved(4).step == 4);
}

TEST_CASE("a failure of none that is on its way ends none that comes later") {
  BeingSaved being_saved;
  being_saved.add(position_at(1));
  CHECK(being_saved.saved(1).step == 1);
  being_saved.failed(2);  // the folder could not be listed
  being_saved.add(position_at(2));
  CHECK(being_saved.saved(2).step == 2);
}

TEST_CASE("after a job has gone back a step that comes again is that of the second time") {
  BeingSaved being_saved;
  being_saved.add(position_at(7));
  CHECK(being_saved.saved(7).rollbacks == 0);
  being_saved.add(position_at(6));
  Position again = position_at(7);
  again.rollbacks = 1;
  being_saved.add(again);
  being_saved.failed(6);
  CHECK(being_saved.saved(7).rollbacks == 1);
}
