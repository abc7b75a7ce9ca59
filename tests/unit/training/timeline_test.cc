#include "worker/training/state/timeline.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::training;

namespace {

PtDict checkpoint(const Timeline& line, std::int64_t step) {
  PtDict about, position, content;
  about.set("timeline", to_dict(line));
  position.set("step", step);
  content.set("ddprun", std::move(about));
  content.set("position", std::move(position));
  return content;
}

}  // namespace

TEST_CASE("a checkpoint says which line it is of, and the next one which it continues") {
  const Timeline line = begin_timeline({.name = "job"}, "other/7", "/there/step-00000007.pt");
  CHECK(line.continues == "other/7");
  const PtDict first = checkpoint(line, 12);
  CHECK(timeline_of(first) == line);
  CHECK(name_of(first) == line.id + "/12");
  const Timeline next = continued(first);
  CHECK(next.id == line.id);
  CHECK(next.began_from == "other/7");
  CHECK(next.continues == line.id + "/12");
  CHECK(begin_timeline({.name = "job"}).id != line.id);
}

TEST_CASE("what goes on from a checkpoint that says nothing of its line begins one") {
  PtDict about, old;
  old.set("ddprun", std::move(about));
  CHECK(timeline_of(old) == Timeline{});
  CHECK(name_of(old).empty());
  CHECK_FALSE(continued(old).id.empty());
}

TEST_CASE("a job is the same one after a restart, and when Slurm has queued it again") {
  CHECK(identify({.launchers = {"a", "a"}}).name == "a");
  CHECK(identify({.launchers = {"b", "b", "a"}}).name == "a+b");
  CHECK(identify({.launchers = {"", "a"}}).name == "a");
  CHECK_FALSE(identify({.launchers = {"a"}}).is_restart);
  CHECK(identify({.launchers = {"a"}}).earlier.empty());
  CHECK(identify({.launchers = {"a"}, .restarts = 1}).is_restart);
  CHECK(identify({.launchers = {"a"}, .restarts = 1}).earlier == "a");
  // Pods may all have been replaced: who restarts them is the same.
  const JobIdentity pod = identify({.coordinator = "77", .launchers = {"c"}, .restarts = 1});
  CHECK(pod.earlier == "c+coordinator-77");
  CHECK(is_of_job({.job = identify({.coordinator = "77", .launchers = {"a", "b"}}).name}, pod.earlier));
  CHECK_FALSE(is_of_job({.job = identify({.coordinator = "78", .launchers = {"a"}}).name}, pod.earlier));
  const JobIdentity first = identify({.slurm_job = "71", .slurm_restarts = "0", .launchers = {"a"}});
  const JobIdentity second = identify({.slurm_job = "71", .slurm_restarts = "1", .launchers = {"b"}});
  CHECK_FALSE(first.is_restart);
  CHECK(second.is_restart);
  CHECK(is_of_job({.job = first.name}, second.earlier));
}

TEST_CASE("a restart is of no job that ran before it in the same allocation of Slurm") {
  const JobIdentity before = identify({.slurm_job = "71", .slurm_restarts = "0", .launchers = {"a"}});
  const JobIdentity restart =
      identify({.slurm_job = "71", .slurm_restarts = "0", .launchers = {"b"}, .restarts = 1});
  CHECK(restart.is_restart);
  CHECK_FALSE(is_of_job({.job = before.name}, restart.earlier));
  CHECK(is_of_job({.job = restart.name}, restart.earlier));
}

TEST_CASE("a line is of the job that began it, and of nobody's where one of them does not say") {
  CHECK(is_of_job({.job = "one"}, "one"));
  CHECK_FALSE(is_of_job({.job = "one"}, "other"));
  CHECK_FALSE(is_of_job({.job = ""}, "other"));
  CHECK_FALSE(is_of_job({.job = "one"}, ""));
  CHECK_FALSE(is_of_job({.job = ""}, ""));
}

TEST_CASE(
    "a job without an id is known by any launcher of its nodes, of which some may be others after a "
    "restart") {
  CHECK(is_of_job({.job = "a+b"}, "b+c"));
  CHECK_FALSE(is_of_job({.job = "a+b"}, "c+d"));
  CHECK(name_of_both("a+b", "b+c") == "a+b+c");
  CHECK(name_of_both("", "one") == "one");
}
