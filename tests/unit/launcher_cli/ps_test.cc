#include "launcher/ps.h"

#include "launcher/job_state.h"
#include "tests/support/catch.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>

using namespace ddprun::launcher;

namespace {

ProcessFacts launcher_of(pid_t pid, std::vector<std::string> arguments) {
  return {.pid = pid,
          .parent = 1,
          .state = 'S',
          .command = "ddprun",
          .age_s = 75,
          .arguments = std::move(arguments)};
}

ProcessFacts worker(pid_t pid, pid_t parent, int rank, char state = 'S',
                    const std::string& tag = "ddprun-a") {
  return {.pid = pid,
          .parent = parent,
          .state = state,
          .command = "python3",
          .age_s = 70,
          .cpu_s = 12.5,
          .memory = 3 << 20,
          .arguments = {"python3"},
          .environment = {"DDPRUN_JOB_TAG=" + tag, "RANK=" + std::to_string(rank),
                          "LOCAL_RANK=" + std::to_string(rank), "LOCAL_WORLD_SIZE=3", "WORLD_SIZE=3",
                          "TORCHELASTIC_RESTART_COUNT=1", "TORCHELASTIC_MAX_RESTARTS=2",
                          "TORCHELASTIC_RUN_ID=cifar"}};
}

}  // namespace

TEST_CASE("ps shows a job with its ranks, states, generation and age") {
  const std::vector<ProcessFacts> processes{launcher_of(10, {"ddprun", "--nproc-per-node", "3", "train.py"}),
                                            worker(12, 10, 1, 'T'), worker(11, 10, 0)};
  CHECK(render_jobs(find_jobs(processes, 99)) ==
        "JOB                PID       AGE       CPU       MEMORY   WORKERS          RESTARTS  COMMAND\n"
        "ddprun-a           10        75.0 s                       2 of 3           1 of 2    ddprun "
        "--nproc-per-node 3 "
        "train.py\n"
        "  rank 0           11        70.0 s    12.5 s    3 MiB    running\n"
        "  rank 1           12        70.0 s    12.5 s    3 MiB    stopped\n");
}

TEST_CASE("between two generations ps shows what the launcher says of its job") {
  ProcessFacts waiting = launcher_of(10, {"ddprun", "x"});
  waiting.job_state = to_text({.tag = "ddprun-a",
                               .run_id = "cifar",
                               .phase = "restarting",
                               .local_world_size = 3,
                               .world_size = 6,
                               .restart_count = 3,
                               .restarts_used = 2,
                               .max_restarts = 4,
                               .log_dir = "/logs/attempt_1"});
  const std::vector<JobFacts> jobs = find_jobs({waiting}, 99);
  CHECK(render_jobs(jobs) ==
        "JOB                PID       AGE       CPU       MEMORY   WORKERS          RESTARTS  COMMAND\n"
        "ddprun-a           10        75.0 s                       restarting       2 of 4    ddprun x\n"
        "  logs /logs/attempt_1\n");
  const auto json = nlohmann::json::parse(jobs_json(jobs));
  CHECK(json[0]["phase"] == "restarting");
  CHECK(json[0]["run_id"] == "cifar");
  CHECK(json[0]["log_dir"] == "/logs/attempt_1");
}

TEST_CASE("a job's state survives being written and read, and nothing else is taken for one") {
  const JobState state{.tag = "t", .run_id = "r \xff", .phase = "running", .log_dir = "/l"};
  CHECK(parse_job_state(to_text(state)).value().phase == "running");
  for (const char* wrong : {"", "{", "{}", "[]", R"({"job": 3})"})
    CHECK_FALSE(parse_job_state(wrong).has_value());
}

TEST_CASE("what a launcher publishes is read through its descriptors, also when it grows shorter") {
  Plan plan;
  plan.job_tag = "ddprun-a";
  plan.log_root = "/a/long/path/that/is/left/out/later";
  JobStatePublisher publisher(plan);
  CHECK(parse_job_state(read_job_state(getpid())).value().phase == "starting");
  publisher.generation_started(RoundInfo{.restart_count = 1});
  CHECK(parse_job_state(read_job_state(getpid())).value().log_dir == plan.log_root + "/attempt_1");
  plan.log_root.clear();
  publisher.generation_started(RoundInfo{.restart_count = 2});
  CHECK(parse_job_state(read_job_state(getpid())).value().log_dir.empty());
  publisher.restarting({.restart_count = 3});
  CHECK(parse_job_state(read_job_state(getpid())).value().phase == "restarting");
}

TEST_CASE("ps counts neither itself nor a store, a guard or a worker's child") {
  ProcessFacts guard = worker(13, 10, 0, 'S', "ddprun-outer");
  guard.command = "job-guard";
  const std::vector<ProcessFacts> processes{launcher_of(10, {"ddprun", "x"}),
                                            launcher_of(20, {"ddprun", "store"}),
                                            launcher_of(21, {"ddprun", "ps"}), guard, worker(14, 77, 0)};
  const std::vector<JobFacts> jobs = find_jobs(processes, 21);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].workers.empty());
}

TEST_CASE("a job within a job is known by its own tag, and the oldest job comes first") {
  ProcessFacts inner = worker(11, 10, 0, 'S', "ddprun-a");
  inner.command = "ddprun";
  inner.arguments = {"ddprun", "inner.py"};
  const std::vector<ProcessFacts> processes{worker(12, 11, 0, 'S', "ddprun-a:ddprun-b"), inner,
                                            launcher_of(10, {"ddprun", "x"})};
  const std::vector<JobFacts> jobs = find_jobs(processes, 99);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].launcher == 10);
  CHECK(jobs[0].tag == "ddprun-a");
  CHECK(jobs[1].tag == "ddprun-b");
}

TEST_CASE("ps says so when there is nothing") {
  CHECK(render_jobs({}) == "no job of yours runs on this host\n");
}

TEST_CASE("ps in JSON is for programs") {
  const auto json =
      nlohmann::json::parse(jobs_json(find_jobs({launcher_of(10, {"ddprun", "x"}), worker(11, 10, 2)}, 99)));
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
  CHECK(self->parent == getppid());
  CHECK(self->memory > 0);
  CHECK(self->age_s < 3600);
}
