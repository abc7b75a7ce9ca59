#include "launcher/plan/plan.h"
#include "tests/support/catch.h"

#include <algorithm>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

Plan two_workers() {
  Plan plan;
  plan.local_world_size = LocalWorldSize(2);
  plan.command = {"/bin/prog", "--out=${local_rank}", "$$x"};
  plan.options.run_id = "run";
  plan.log_root = "/logs/run_x";
  plan.job_tag = "ddprun-x";
  plan.meeting.host = "127.0.0.1";
  plan.host.hostname = "node-a";
  plan.host.environment = {{"PATH", "/bin"}, {"RANK", "stale"}};
  return plan;
}

std::vector<WorkerSpec> workers_of(const Plan& plan) {
  return worker_specs(plan, single_node_round(plan, Port(4242)));
}

std::string value(const WorkerSpec& worker, const std::string& name) {
  const std::string start = name + "=";
  const auto is_it = [&](const std::string& line) { return line.compare(0, start.size(), start) == 0; };
  CHECK(std::count_if(worker.environment.begin(), worker.environment.end(), is_it) <= 1);
  const auto found = std::find_if(worker.environment.begin(), worker.environment.end(), is_it);
  return found == worker.environment.end() ? "unset" : found->substr(start.size());
}

}  // namespace

TEST_CASE("a worker gets torchrun's environment on top of ours") {
  const std::vector<WorkerSpec> workers = workers_of(two_workers());
  REQUIRE(workers.size() == 2);
  const WorkerSpec& worker = workers[1];
  const std::vector<std::pair<std::string, std::string>> expected{
      {"PATH", "/bin"},
      {"RANK", "1"},
      {"LOCAL_RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_RANK", "1"},
      {"ROLE_WORLD_SIZE", "2"},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "4242"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", "run"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", "/logs/run_x/attempt_0/1/error.json"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"DDPRUN_JOB_TAG", "ddprun-x"},
      {"DDPRUN_LOG_DIR", "/logs/run_x/attempt_0"},
  };
  for (const auto& [name, text] : expected) {
    CAPTURE(name);
    CHECK(value(worker, name) == text);
  }
  CHECK(worker.environment.size() == expected.size());
}

TEST_CASE("what the user has set is kept") {
  Plan plan = two_workers();
  plan.host.environment = {{"OMP_NUM_THREADS", "4"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};
  CHECK(value(workers_of(plan)[0], "OMP_NUM_THREADS") == "4");
  CHECK(value(workers_of(plan)[0], "TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("a lone worker may use all threads and our standard input") {
  Plan plan = two_workers();
  plan.local_world_size = LocalWorldSize(1);
  CHECK(value(workers_of(plan)[0], "OMP_NUM_THREADS") == "unset");
  CHECK(workers_of(plan)[0].inherit_stdin);
  CHECK_FALSE(workers_of(two_workers())[0].inherit_stdin);
}

TEST_CASE("standard input goes to the rank that was named") {
  Plan plan = two_workers();
  plan.options.stdin_local_rank = 1;
  CHECK_FALSE(workers_of(plan)[0].inherit_stdin);
  CHECK(workers_of(plan)[1].inherit_stdin);
}

TEST_CASE("the local rank is filled into arguments, not into the program") {
  Plan plan = two_workers();
  plan.command[0] = "/odd/$local_rank";
  CHECK(workers_of(plan)[1].argv == std::vector<std::string>{"/odd/$local_rank", "--out=1", "$x"});
}

TEST_CASE("a virtual local rank is 0 with one device of the visible ones") {
  Plan plan = two_workers();
  plan.options.virtual_local_rank = true;
  plan.host.visible_devices = {"5", "GPU-x"};
  const WorkerSpec worker = workers_of(plan)[1];
  CHECK(value(worker, "LOCAL_RANK") == "0");
  CHECK(value(worker, "RANK") == "1");
  CHECK(value(worker, "CUDA_VISIBLE_DEVICES") == "GPU-x");
  plan.host.visible_devices.clear();
  CHECK(value(workers_of(plan)[1], "CUDA_VISIBLE_DEVICES") == "1");
}

TEST_CASE("streams go where torchrun sends them") {
  Plan plan = two_workers();
  plan.options.redirects.by_local_rank[0] = StdStream::kOut;
  plan.options.tee.by_local_rank[1] = StdStream::kErr;
  const std::vector<WorkerSpec> workers = workers_of(plan);
  CHECK(workers[0].out.to_file);
  CHECK_FALSE(workers[0].out.to_console);
  CHECK_FALSE(workers[0].err.to_file);
  CHECK(workers[0].err.to_console);
  CHECK(workers[0].err.prefix.empty());
  CHECK(workers[1].err.to_file);
  CHECK(workers[1].err.to_console);
  CHECK(workers[1].err.prefix == "[default1]:");
}

TEST_CASE("a rank outside the filter does not reach the console, but keeps its files") {
  Plan plan = two_workers();
  plan.options.tee.all = StdStream::kOut;
  plan.options.local_ranks_filter = {1};
  const std::vector<WorkerSpec> workers = workers_of(plan);
  CHECK(workers[0].out.to_file);
  CHECK_FALSE(workers[0].out.to_console);
  CHECK_FALSE(workers[0].err.to_console);
  CHECK(workers[1].out.to_console);
}

TEST_CASE("without a log directory there are no files and no error file") {
  Plan plan = two_workers();
  plan.log_root.clear();
  plan.options.tee.all = StdStream::kBoth;
  const WorkerSpec worker = workers_of(plan)[0];
  CHECK(worker.log_dir.empty());
  CHECK_FALSE(worker.out.to_file);
  CHECK(worker.out.to_console);
  CHECK(worker.out.prefix.empty());
  CHECK(value(worker, "TORCHELASTIC_ERROR_FILE").empty());
}

TEST_CASE("the prefix of tee'd lines is torchrun's template, or rank and host on request") {
  Plan plan = two_workers();
  plan.options.tee.all = StdStream::kOut;
  plan.host.environment = {
      {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${role_name} ${rank} ${local_rank}> "}};
  CHECK(workers_of(plan)[1].out.prefix == "<default 1 1> ");
  plan.options.prefix = true;
  CHECK(workers_of(plan)[1].out.prefix == "[1@node-a] ");
  CHECK(workers_of(plan)[1].err.prefix == "[1@node-a] ");
}

TEST_CASE("--log-line-prefix-template outdoes the variable, and what --prefix puts there") {
  Plan plan = two_workers();
  plan.options.tee.all = StdStream::kOut;
  plan.host.environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", ""}};
  CHECK(workers_of(plan)[1].out.prefix == "[default1]:");
  plan.host.environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x"}};
  plan.options.log_line_prefix_template = "${hostname}:${rank}: ${other}";
  CHECK(workers_of(plan)[1].out.prefix == "node-a:1: ${other}");
  CHECK(workers_of(plan)[1].err.prefix.empty());
  plan.options.prefix = true;
  CHECK(workers_of(plan)[1].err.prefix == "node-a:1: ${other}");
}

TEST_CASE("--rank0-only: only rank 0 of the world reaches a console, files stay") {
  Plan plan = two_workers();
  plan.options.rank0_only = true;
  plan.options.tee.all = StdStream::kBoth;
  const std::vector<WorkerSpec> first = workers_of(plan);
  CHECK(first[0].out.to_console);
  CHECK_FALSE(first[1].out.to_console);
  CHECK_FALSE(first[1].err.to_console);
  CHECK(first[1].out.to_file);
  membership::Round elsewhere = single_node_round(plan, Port(4242));
  elsewhere.seat.base_rank = Rank(2);
  CHECK_FALSE(worker_specs(plan, elsewhere)[0].out.to_console);
}

TEST_CASE("lines for the funnel carry rank and host, and --dry-run says where they go") {
  Plan plan = two_workers();
  plan.options.log_funnel = true;
  CHECK(workers_of(plan)[1].err.prefix == "[1@node-a] ");
  CHECK_THAT(
      describe(plan, workers_of(plan)),
      Catch::Matchers::Contains("stdout   the coordinator's console, each line after \"[1@node-a] \"\n"));
}

TEST_CASE("the job's secret is kept from the workers") {
  Plan plan = two_workers();
  plan.host.environment.emplace_back("DDPRUN_SECRET", "swordfish");
  CHECK(value(workers_of(plan)[0], "DDPRUN_SECRET") == "unset");
  CHECK(value(workers_of(plan)[0], "PATH") == "/bin");
}

TEST_CASE("a restart's cause is one short line, and never an outer job's") {
  Plan plan = two_workers();
  plan.host.environment = {{"DDPRUN_RESTART_CAUSE", "of the outer job"}};
  membership::Round round = single_node_round(plan, Port(4242));
  CHECK(value(worker_specs(plan, round)[1], "DDPRUN_RESTART_CAUSE") == "unset");
  round.restart_cause = "rank 1 failed:\n\x1b[31mValueError\xff" + std::string(1000, 'x');
  const std::string cause = value(worker_specs(plan, round)[1], "DDPRUN_RESTART_CAUSE");
  CHECK(cause.starts_with("rank 1 failed:\\x0a\\x1b[31mValueError?xxx"));
  CHECK(cause.ends_with("x…"));
  CHECK(cause.size() == 500);
}

TEST_CASE("a job within a job carries both tags") {
  Plan plan = two_workers();
  plan.host.environment = {{"DDPRUN_JOB_TAG", "ddprun-outer"}};
  CHECK(value(workers_of(plan)[0], "DDPRUN_JOB_TAG") == "ddprun-outer:ddprun-x");
}

TEST_CASE("one rank is started under a debugger, with our standard input") {
  Plan plan = two_workers();
  plan.options.debug_rank = 1;
  plan.options.debug_command = {"gdb", "--args"};
  const std::vector<WorkerSpec> workers = workers_of(plan);
  CHECK(workers[0].argv.front() == "/bin/prog");
  CHECK(workers[1].argv == std::vector<std::string>{"gdb", "--args", "/bin/prog", "--out=1", "$x"});
  CHECK(workers[1].inherit_stdin);
}

TEST_CASE("Python's debugger is a module of the interpreter") {
  Plan plan = two_workers();
  plan.options.entrypoint = "t.py";
  plan.command = {"/bin/python3", "-u", "t.py"};
  plan.options.debug_rank = 0;
  plan.options.debug_command = {"pdb", "-c", "continue"};
  CHECK(workers_of(plan)[0].argv ==
        std::vector<std::string>{"/bin/python3", "-u", "-m", "pdb", "-c", "continue", "t.py"});
}

TEST_CASE("ranks and role ranks start at the bases of the round") {
  const Plan plan = two_workers();
  membership::Round round = single_node_round(plan, Port(1));
  round.seat.node_rank = NodeRank(3);
  round.seat.nodes = 4;
  round.seat.base_rank = Rank(10);
  round.seat.base_role_rank = Rank(4);
  round.seat.world_size = WorldSize(12);
  round.seat.role_world_size = WorldSize(6);
  round.seat.generation = Generation(3);
  const WorkerSpec worker = worker_specs(plan, round)[1];
  CHECK(worker.rank == Rank(11));
  CHECK(value(worker, "RANK") == "11");
  CHECK(value(worker, "ROLE_RANK") == "5");
  CHECK(value(worker, "ROLE_WORLD_SIZE") == "6");
  CHECK(value(worker, "GROUP_RANK") == "3");
  CHECK(value(worker, "TORCHELASTIC_RESTART_COUNT") == "2");
  CHECK(worker.log_dir == "/logs/run_x/attempt_2/1");
}

TEST_CASE("--dry-run's text shows all that would be done") {
  Plan plan = two_workers();
  plan.local_world_size = LocalWorldSize(1);
  plan.title = "prog";
  plan.cpus = {{0, 1, 2, 5}};
  plan.options.tee.all = StdStream::kOut;
  plan.options.max_restarts = 3;
  CHECK(describe(plan, workers_of(plan)) ==
        "job        prog: 1 worker on node-a, job id run\n"
        "store      127.0.0.1, a free port\n"
        "logs       /logs/run_x\n"
        "restarts   up to 3\n"
        "stopping   SIGTERM, and SIGKILL 30.0 s later; on SIGTERM, SIGINT, SIGHUP, SIGQUIT\n"
        "\n"
        "rank 0 (local rank 0)\n"
        "  command  /bin/prog --out=0 '$x'\n"
        "  cpus     0-2,5\n"
        "  device   cpu\n"
        "  stdin    ours\n"
        "  stdout   console, each line after \"[default0]:\", and /logs/run_x/attempt_0/0/stdout.log\n"
        "  stderr   console\n"
        "  set      RANK=0\n"
        "           TORCHELASTIC_ERROR_FILE=/logs/run_x/attempt_0/0/error.json\n"
        "           LOCAL_RANK=0\n"
        "           GROUP_RANK=0\n"
        "           ROLE_RANK=0\n"
        "           ROLE_NAME=default\n"
        "           LOCAL_WORLD_SIZE=1\n"
        "           WORLD_SIZE=1\n"
        "           GROUP_WORLD_SIZE=1\n"
        "           ROLE_WORLD_SIZE=1\n"
        "           MASTER_ADDR=127.0.0.1\n"
        "           MASTER_PORT=4242\n"
        "           TORCHELASTIC_RESTART_COUNT=0\n"
        "           TORCHELASTIC_MAX_RESTARTS=3\n"
        "           TORCHELASTIC_RUN_ID=run\n"
        "           TORCHELASTIC_USE_AGENT_STORE=True\n"
        "           TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"
        "           TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT\n"
        "           DDPRUN_JOB_TAG=ddprun-x\n"
        "           DDPRUN_LOG_DIR=/logs/run_x/attempt_0\n");
}
