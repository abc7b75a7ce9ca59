// Jobs of which is known who is guilty, because they were played: what is judged of them, whatever a look has missed.
#include "tests/unit/launcher_why/made_jobs.h"

#include "launcher/why/verdict/verdict.h"
#include "tests/support/catch.h"

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace ddprun::launcher::why;

namespace {

constexpr int kJobs = 4000;

bool is_accused(const Verdict& verdict, int rank) {
  return std::find(verdict.guilty.begin(), verdict.guilty.end(), rank) != verdict.guilty.end();
}

}  // namespace

TEST_CASE("whatever could not be seen of a job, nobody who is innocent is accused without a doubt",
          "[.slow]") {
  for (int seed = 1; seed <= kJobs; ++seed) {
    for (const Hole hole : {Hole::kNone, Hole::kUnread, Hole::kUnseen, Hole::kUnrecorded, Hole::kStacksOnly,
                            Hole::kUnstacked}) {
      MadeJob job(static_cast<std::uint32_t>(seed));
      const Verdict verdict = judge(job.picture(hole));
      // Who skips a collective is in another one then. Who is slow is no matter of guilt.
      if (job.fault() == Fault::kSkips || job.may_spin() || verdict.guilty.empty() ||
          verdict.health == Health::kSlow)
        continue;
      CAPTURE(seed, static_cast<int>(hole), job.script(), verdict.reason, verdict.guilty);
      if (verdict.confidence != Confidence::kGuess) CHECK(is_accused(verdict, job.culprit()));
      // Of those that have ended nobody knows which has left something undone.
      if (verdict.confidence != Confidence::kGuess && job.fault() != Fault::kEnds)
        CHECK(verdict.guilty.size() == 1);
      if (job.fault() == Fault::kComputes && verdict.confidence != Confidence::kGuess)
        CHECK(verdict.health == Health::kLate);
    }
  }
}

TEST_CASE(
    "of a job of which all was seen, who is guilty is always among the accused, and nearly always alone") {
  int judged = 0;
  int alone = 0;
  for (int seed = 1; seed <= kJobs; ++seed) {
    MadeJob job(static_cast<std::uint32_t>(seed));
    const Verdict verdict = judge(job.picture(Hole::kNone));
    CAPTURE(seed, job.script(), verdict.reason, verdict.guilty);
    // Who is stopped is told, whether somebody waits or not.
    const bool is_anything_wrong = job.fault() != Fault::kNone && job.is_anybody_waiting();
    if (!is_anything_wrong && job.fault() != Fault::kStops)
      CHECK((verdict.health == Health::kFine || verdict.health == Health::kSlow));
    if (!is_anything_wrong || job.fault() == Fault::kSkips || job.may_spin()) continue;
    CHECK(is_accused(verdict, job.culprit()));
    ++judged;
    alone += verdict.guilty.size() == 1;
  }
  REQUIRE(judged > kJobs / 3);
  CHECK(alone > judged * 95 / 100);
}

TEST_CASE("where a rank has skipped something, who is guilty is mostly found") {
  int judged = 0;
  int found = 0;
  for (int seed = 1; seed <= kJobs; ++seed) {
    MadeJob job(static_cast<std::uint32_t>(seed));
    if (job.fault() != Fault::kSkips || !job.is_anybody_waiting()) continue;
    ++judged;
    found += is_accused(judge(job.picture(Hole::kNone)), job.culprit());
  }
  REQUIRE(judged > kJobs / 20);
  CAPTURE(judged, found);
  CHECK(found > judged * 9 / 10);
}
