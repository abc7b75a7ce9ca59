#include "launcher/report/outcome.h"

#include "tests/support/catch.h"

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

WorkerOutcome worker(int rank, ExitStatus status, EndKind end_kind = EndKind::kConsequence) {
  WorkerOutcome outcome;
  outcome.rank = Rank(rank);
  outcome.status = status;
  outcome.end_kind = end_kind;
  return outcome;
}

/// One generation, of which the worker of rank 2 seemed to be the root cause here.
JobOutcome after_a_symptom() {
  GenerationOutcome generation{
      .generation = Generation(3), .reason = StopReason::kWorkerFailed, .root_cause = 0};
  generation.workers = {worker(2, ExitStatus::exited(1), EndKind::kRootCause),
                        worker(3, ExitStatus::exited(0), EndKind::kSucceeded)};
  JobOutcome outcome;
  outcome.generations.push_back(std::move(generation));
  return outcome;
}

membership::NodeFailure cause(int rank, int generation) {
  return {.worker = membership::WorkerEnd{.rank = Rank(rank)},
          .generation = Generation(static_cast<std::uint32_t>(generation)),
          .host = "b",
          .final_because = "exit code 78"};
}

membership::Restart restart(int restart_count, std::optional<membership::NodeFailure> cause = {}) {
  return {.restart_count = restart_count,
          .number = 2,
          .allowed = 5,
          .why = "node 1 was lost",
          .root_cause = std::move(cause)};
}

}  // namespace

TEST_CASE("a restart for a lost node is kept with its generation, of which no worker is the root cause") {
  JobOutcome outcome = after_a_symptom();
  note_restart(outcome, restart(3));
  const GenerationOutcome& last = outcome.generations.back();
  CHECK(last.restart_why == "node 1 was lost");
  CHECK_FALSE(last.root_cause);
  CHECK(last.workers[0].end_kind == EndKind::kConsequence);
  CHECK(outcome.granted_restart->why == "node 1 was lost");
  CHECK(outcome.restarts_used == 1);
  outcome.told_cause.reset();
  note_bad_end(outcome);  // told of nobody: what was before stays
  CHECK(outcome.granted_restart);
}

TEST_CASE("what a generation failed of in which this node had no part is not said of an older one") {
  JobOutcome outcome = after_a_symptom();
  note_restart(outcome, restart(4, cause(7, 4)));
  const GenerationOutcome& last = outcome.generations.back();
  CHECK(last.root_cause == 0U);
  CHECK_FALSE(last.told_cause);
  CHECK(last.restart_why.empty());
  CHECK(outcome.granted_restart->cause->rank() == Rank(7));
}

TEST_CASE("the end of a generation in which this node had no part is no restart any more") {
  JobOutcome outcome = after_a_symptom();
  note_restart(outcome, restart(3));
  outcome.told_cause = cause(7, 4);
  note_bad_end(outcome);
  CHECK_FALSE(outcome.granted_restart);
  CHECK(outcome.refusal == "exit code 78");
  CHECK(outcome.told_cause->rank() == Rank(7));
  CHECK_FALSE(outcome.generations.back().told_cause);
}

TEST_CASE("a rank of this node that left with 0 is the root cause, and who lost it stays told") {
  JobOutcome outcome = after_a_symptom();
  outcome.told_cause = cause(3, 3);
  outcome.told_cause->has_left = true;
  note_bad_end(outcome);
  const GenerationOutcome& last = outcome.generations.back();
  CHECK(last.workers[1].end_kind == EndKind::kRootCause);
  CHECK_FALSE(last.workers[1].was_suspended);
  CHECK(last.workers[0].end_kind == EndKind::kConsequence);
  CHECK(outcome.told_cause->rank() == Rank(3));
  CHECK(last.told_cause->rank() == Rank(3));
}

TEST_CASE(
    "a rank of this node that stood still is the root cause, not for its end, and who lost it stays told") {
  JobOutcome outcome = after_a_symptom();
  outcome.generations.back().workers[1].status = GENERATE(ExitStatus::killed(SIGTERM), ExitStatus::exited(0));
  outcome.told_cause = cause(3, 3);
  outcome.told_cause->stood_still = true;
  note_bad_end(outcome);
  const GenerationOutcome& last = outcome.generations.back();
  CHECK(last.workers[1].end_kind == EndKind::kRootCause);
  CHECK(last.workers[1].was_suspended);
  CHECK(last.told_cause->rank() == Rank(3));
}

TEST_CASE("a rank of this node that stood still and failed of its own doing is told by its end") {
  JobOutcome outcome = after_a_symptom();
  outcome.generations.back().workers[1].status = ExitStatus::exited(3);
  outcome.generations.back().workers[1].was_suspended = true;
  outcome.generations.back().victim = 1;
  outcome.told_cause = cause(3, 3);
  note_bad_end(outcome);
  const GenerationOutcome& last = outcome.generations.back();
  CHECK(last.root_cause == 1U);
  CHECK_FALSE(last.victim);
  CHECK_FALSE(last.workers[1].was_suspended);
}
