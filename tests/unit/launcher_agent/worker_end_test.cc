#include "launcher/agent/worker_end.h"

#include "tests/support/catch.h"

#include <csignal>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

/// What we had a part in of the end of a worker that was asked to end with SIGTERM and, if its time was over, killed.
std::optional<int> our_part(Leaving was_leaving, const ExitStatus& status, bool is_time_over) {
  SupervisedWorker seen;
  seen.stopped_with = is_time_over ? SIGKILL : SIGTERM;
  if (is_time_over) seen.asked_with = SIGTERM;
  WorkerOutcome worker;
  worker.status = status;
  worker.was_leaving = was_leaving;
  note_our_part(worker, seen);
  const Ending ending = ending_of(worker, std::nullopt, {});
  CHECK(ending.was_over == !worker.stopped_with.has_value());
  return worker.stopped_with;
}

}  // namespace

TEST_CASE("what was over when our signal came did not end of it, however long it takes") {
  const ExitStatus killed = ExitStatus::killed(SIGKILL);
  CHECK(our_part(Leaving::kNotYet, killed, true) == SIGKILL);
  CHECK(our_part(Leaving::kNotYet, killed, false) == SIGTERM);
  CHECK(our_part(Leaving::kNotYet, ExitStatus::exited(1), true) == SIGTERM);
  for (const bool is_time_over : {false, true}) {
    CHECK_FALSE(our_part(Leaving::kOver, killed, is_time_over).has_value());
    CHECK_FALSE(our_part(Leaving::kDumping, ExitStatus::killed(SIGSEGV), is_time_over).has_value());
  }
}

TEST_CASE("our SIGKILL cuts the writing of a core short, and is what the process then ended of") {
  CHECK(our_part(Leaving::kDumping, ExitStatus::killed(SIGKILL), true) == SIGKILL);
  CHECK_FALSE(our_part(Leaving::kDumping, ExitStatus::killed(SIGKILL), false).has_value());
}

TEST_CASE("who ends with a code that forbids a restart knows what it ended of") {
  WorkerOutcome worker;
  worker.status = ExitStatus::exited(75);
  CHECK(ending_of(worker, std::nullopt, {3}).weight == Weight::kDoubtful);
  const Ending final_one = ending_of(worker, std::nullopt, {3, 75});
  CHECK(final_one.weight == Weight::kCause);
  CHECK(final_one.symptom.empty());
}
