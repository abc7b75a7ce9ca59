#include "launcher/commands/ps.h"

#include "launcher/report/job_state.h"
#include "tests/support/catch.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

PublishedJob state_of(pid_t launcher, std::vector<pid_t> workers) {
  return {.launcher = launcher,
          .tag = "ddprun-a",
          .run_id = "cifar",
          .phase = "running",
          .local_world_size = 3,
          .world_size = 6,
          .restart_count = 1,
          .restarts_used = 1,
          .max_restarts = 2,
          .log_dir = {},
          .workers = std::move(workers)};
}

ProcessFacts launcher_of(const PublishedJob& state, std::vector<std::string> arguments) {
  return {.pid = state.launcher,
          .own_pid = state.launcher,
          .parent = 1,
          .state = 'S',
          .age_s = 75,
          .arguments = std::move(arguments),
          .job_state = to_text(state)};
}

ProcessFacts child_of(pid_t parent, pid_t pid, char state = 'S') {
  return {.pid = pid,
          .own_pid = pid,
          .parent = parent,
          .state = state,
          .age_s = 70,
          .cpu_s = 12.5,
          .memory = 3 << 20,
          .arguments = {"python3"},
          .job_state = {}};
}

}  // namespace

TEST_CASE("ps shows a job with its ranks, states, generation and age") {
  const std::vector<ProcessFacts> processes{
      launcher_of(state_of(10, {11, 12, 0}), {"ddprun", "--nproc-per-node", "3", "train.py"}),
      child_of(10, 12, 'T'), child_of(10, 11)};
  CHECK(render_jobs(find_jobs(processes)) ==
        "JOB                PID       AGE       CPU       MEMORY   WORKERS          RESTARTS  COMMAND\n"
        "ddprun-a           10        75.0 s                       2 of 3           1 of 2    ddprun "
        "--nproc-per-node 3 "
        "train.py\n"
        "  rank 0           11        70.0 s    12.5 s    3 MiB    running\n"
        "  rank 1           12        70.0 s    12.5 s    3 MiB    stopped\n");
}

TEST_CASE("between two generations ps shows what the launcher says of its job") {
  PublishedJob waiting = state_of(10, {0, 0, 0});
  waiting.phase = "restarting";
  waiting.log_dir = "/logs/attempt_1";
  const std::vector<JobFacts> jobs = find_jobs({launcher_of(waiting, {"ddprun", "x"})});
  CHECK(render_jobs(jobs) ==
        "JOB                PID       AGE       CPU       MEMORY   WORKERS          RESTARTS  COMMAND\n"
        "ddprun-a           10        75.0 s                       restarting       1 of 2    ddprun x\n"
        "  logs /logs/attempt_1\n");
  const auto json = nlohmann::json::parse(jobs_json(jobs));
  CHECK(json[0]["phase"] == "restarting");
  CHECK(json[0]["run_id"] == "cifar");
  CHECK(json[0]["log_dir"] == "/logs/attempt_1");
}

TEST_CASE("a job's state survives being written and read, and nothing else is taken for one") {
  PublishedJob state = state_of(4194304, {0, 12, 4194303});
  state.run_id = "r \xff";
  CHECK(parse_job_state(to_text(state)).value().phase == "running");
  CHECK(parse_job_state(to_text(state)).value().workers == state.workers);
  for (const char* wrong : {"", "{", "{}", "[]", R"({"job": 3})"})
    CHECK_FALSE(parse_job_state(wrong).has_value());
}

TEST_CASE("what a launcher publishes is read through its descriptors, also when it grows shorter") {
  Plan plan;
  plan.job_tag = "ddprun-a";
  plan.local_world_size = LocalWorldSize(2);
  plan.log_root = "/a/long/path/that/is/left/out/later";
  JobStatePublisher publisher(plan);
  CHECK(parse_job_state(read_job_state(getpid())).value().phase == "starting");
  publisher.round_begins(membership::Round{.seat = {.generation = Generation(2)}});
  CHECK(parse_job_state(read_job_state(getpid())).value().log_dir == plan.log_root + "/attempt_1");
  WorkerOutcome worker;
  worker.local_rank = LocalRank(1);
  worker.pid = 4711;
  publisher.worker_spawned({}, worker);
  CHECK(parse_job_state(read_job_state(getpid())).value().workers == std::vector<pid_t>{0, 4711});
  publisher.worker_exited({}, worker);
  CHECK(parse_job_state(read_job_state(getpid())).value().workers == std::vector<pid_t>{0, 0});
  plan.log_root.clear();
  publisher.round_begins(membership::Round{.seat = {.generation = Generation(3)}});
  CHECK(parse_job_state(read_job_state(getpid())).value().log_dir.empty());
  publisher.restarting({.restart_count = 3});
  CHECK(parse_job_state(read_job_state(getpid())).value().phase == "restarting");
}

TEST_CASE("ps counts neither an orphan that the launcher got, nor a guard, nor a worker's child") {
  const std::vector<ProcessFacts> processes{launcher_of(state_of(10, {11, 0, 0}), {"ddprun", "x"}),
                                            child_of(10, 13), child_of(11, 14), child_of(77, 11)};
  const std::vector<JobFacts> jobs = find_jobs(processes);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].workers.empty());
}

TEST_CASE("a job is known by what its launcher publishes, and neither by its name nor a fork of it") {
  ProcessFacts wrapper = child_of(1, 20);
  wrapper.arguments = {"/bin/bash", "./ddprun", "x"};
  ProcessFacts fork = launcher_of(state_of(10, {}), {"ddprun", "x"});
  fork.pid = fork.own_pid = 21;
  CHECK(find_jobs({wrapper, fork}).empty());
}

TEST_CASE("a job in a pid namespace of its own is listed by the pids of the one who asks") {
  ProcessFacts launcher = launcher_of(state_of(1, {2, 3, 4}), {"ddprun", "x"});
  launcher.pid = 1001;
  ProcessFacts worker = child_of(1001, 1003);
  worker.own_pid = 3;
  const std::vector<JobFacts> jobs = find_jobs({launcher, worker});
  REQUIRE(jobs.size() == 1);
  REQUIRE(jobs[0].workers.size() == 1);
  CHECK(jobs[0].launcher == 1001);
  CHECK(jobs[0].workers[0].process.pid == 1003);
  CHECK(jobs[0].state.workers == std::vector<pid_t>{0, 1003, 0});
  CHECK(jobs[0].workers[0].rank == 1);
}

TEST_CASE("a job within a job is another one, and the oldest job comes first") {
  PublishedJob state = state_of(11, {12});
  state.tag = "ddprun-b";
  ProcessFacts inner = launcher_of(state, {"ddprun", "inner.py"});
  inner.parent = 10;
  inner.age_s = 70;
  const std::vector<ProcessFacts> processes{child_of(11, 12), inner,
                                            launcher_of(state_of(10, {11}), {"ddprun", "x"})};
  const std::vector<JobFacts> jobs = find_jobs(processes);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].launcher == 10);
  CHECK(jobs[0].state.tag == "ddprun-a");
  CHECK(jobs[0].workers.at(0).process.pid == 11);
  CHECK(jobs[1].state.tag == "ddprun-b");
}

TEST_CASE("ps says so when there is nothing") {
  CHECK(render_jobs({}) == "no job of yours runs on this host\n");
}

TEST_CASE("ps in JSON is for programs") {
  const auto json = nlohmann::json::parse(
      jobs_json(find_jobs({launcher_of(state_of(10, {0, 0, 11}), {"ddprun", "x"}), child_of(10, 11)})));
  CHECK(json[0]["job"] == "ddprun-a");
  CHECK(json[0]["run_id"] == "cifar");
  CHECK(json[0]["workers"][0]["rank"] == 2);
  CHECK(json[0]["workers"][0]["memory_bytes"] == 3 << 20);
}

TEST_CASE("our own process is among this user's") {
  const std::vector<ProcessFacts> processes = read_own_processes();
  const auto self =
      std::find_if(processes.begin(), processes.end(), [](const auto& p) { return p.pid == getpid(); });
  REQUIRE(self != processes.end());
  CHECK(self->own_pid == getpid());
  CHECK(self->parent == getppid());
  CHECK(self->memory > 0);
  CHECK(self->age_s < 3600);
}

TEST_CASE("a job is found by pid, tag and job id; none and several are said with a list") {
  JobFacts one;
  one.state.tag = "a1b2";
  one.state.run_id = "cifar";
  one.launcher = 4711;
  JobFacts two = one;
  two.state.tag = "c3d4";
  two.launcher = 4712;
  CHECK(the_job({one, two}, "4712").value().launcher == 4712);
  CHECK(the_job({one, two}, "a1b2").value().launcher == 4711);
  CHECK(the_job({one}, "cifar").value().launcher == 4711);
  CHECK(the_job({one}, "").value().launcher == 4711);
  one.workers.resize(2);
  one.workers[0].process.pid = 4713;
  one.workers[1].process.pid = 4712;  // a launcher of its own
  CHECK(the_job({one, two}, "4713").value().launcher == 4711);
  CHECK(the_job({one, two}, "4712").value().launcher == 4712);
  JobFacts of_slurm = one;
  of_slurm.launcher = 4000;
  of_slurm.state.run_id = "4711";
  CHECK(the_job({of_slurm, one}, "4711").error().code() == ErrorCode::kUsage);
  of_slurm.state.run_id = "4713";
  CHECK(the_job({of_slurm, one}, "4713").error().code() == ErrorCode::kUsage);
  CHECK_THAT(
      the_job({one, two}, "cifar").error().message(),
      Catch::Matchers::StartsWith("2 of your jobs on this host go by \"cifar\"; name one by its tag:\n") &&
          Catch::Matchers::Contains("4711") && Catch::Matchers::Contains("4712"));
  CHECK_THAT(
      the_job({one, two}, "").error().message(),
      Catch::Matchers::StartsWith("2 of your jobs on this host could be meant; name one by its tag:\n"));
  CHECK_THAT(the_job({one}, "mnist").error().message(),
             Catch::Matchers::StartsWith("no job \"mnist\" on this host; your jobs here:\n"));
  CHECK_THAT(the_job({}, "").error().message(),
             Catch::Matchers::StartsWith("no job of yours runs on this host"));
}
