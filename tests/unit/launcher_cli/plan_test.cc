#include "launcher/plan/plan.h"

#include "rendezvous/base/exit_codes.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/temporary_directory.h"

#include <fstream>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::testing::TemporaryDirectory;

namespace {

HostFacts machine(int cpus, int gpus) {
  HostFacts host;
  host.hostname = "node-a";
  for (int cpu = 0; cpu < cpus; ++cpu) host.cpus.push_back({.id = cpu});
  host.gpu_count = gpus;
  for (int gpu = 0; gpu < gpus; ++gpu) host.visible_devices.push_back(std::to_string(gpu));
  host.working_directory = "/";
  host.temporary_directory = "/tmp";
  return host;
}

Options job(const WorkerCount& workers = {}) {
  Options options;
  options.entrypoint = "/bin/true";
  options.workers = workers;
  return options;
}

Result<Plan> plan(const Options& options, const HostFacts& host) {
  return make_plan(options, host, "abcdefgh");
}

std::string refusal(const Options& options, const HostFacts& host) {
  const Result<Plan> result = plan(options, host);
  if (result) return "accepted";
  CHECK(to_exit_code(result.error().code()) == exit_code::kUsage);
  return result.error().message();
}

}  // namespace

TEST_CASE("the number of workers follows the machine when asked to") {
  CHECK(plan(job(WorkerCount{.of = WorkerCount::Of::kCpu}), machine(6, 2)).value().local_world_size ==
        LocalWorldSize(6));
  CHECK(plan(job(WorkerCount{.of = WorkerCount::Of::kGpu}), machine(6, 2)).value().local_world_size ==
        LocalWorldSize(2));
  CHECK(plan(job(WorkerCount{.of = WorkerCount::Of::kAuto}), machine(6, 2)).value().local_world_size ==
        LocalWorldSize(2));
  CHECK(plan(job(WorkerCount{.of = WorkerCount::Of::kAuto}), machine(6, 0)).value().local_world_size ==
        LocalWorldSize(6));
  CHECK(plan(job(WorkerCount{.number = 7}), machine(6, 2)).value().local_world_size == LocalWorldSize(7));
}

TEST_CASE("more GPU workers than GPUs are refused with the number there is") {
  CHECK(refusal(job(WorkerCount{.of = WorkerCount::Of::kGpu}), machine(2, 0)) ==
        "--nproc-per-node gpu: this machine has no GPU (no /dev/nvidia0); use --nproc-per-node cpu or a "
        "number");
  Options options = job(WorkerCount{.number = 4});
  options.backend = "nccl";
  CHECK(refusal(options, machine(2, 2)) ==
        "--nproc-per-node 4: backend nccl needs a GPU for each worker, and this machine has 2; use "
        "--nproc-per-node 2 or "
        "--backend gloo");
  options.workers = {};
  CHECK(refusal(options, machine(2, 0)) ==
        "--nproc-per-node 1: backend nccl needs a GPU for each worker, and this machine has 0; use --backend "
        "gloo");
}

TEST_CASE("a job has no more ranks than its nodes could tell each other of") {
  const std::string refused =
      "1000000 nodes with 1001 workers each: that is 1001000000 ranks, and a job has at most 1000000000";
  Options options = job(WorkerCount{.number = 1001});
  options.min_nodes = options.max_nodes = 1'000'000;
  CHECK(refusal(options, machine(2, 0)) == refused);
  options.workers.number = 1000;
  CHECK(plan(options, machine(2, 0)).has_value());
  options.workers.number = 1001;
  options.min_nodes = 1;
  CHECK(expected_round(plan(options, machine(2, 0)).value()).seat.world_size == WorldSize(1'000'000'000));
  options.node_rank = 999'999;
  CHECK(refusal(options, machine(2, 0)) == refused);
}

TEST_CASE("GPUs that are hidden are not there, and the variable that hides them is named") {
  HostFacts host = machine(2, 0);
  host.environment = {{"CUDA_VISIBLE_DEVICES", ""}};
  CHECK(refusal(job(WorkerCount{.of = WorkerCount::Of::kGpu}), host) ==
        "--nproc-per-node gpu: this machine has no GPU (CUDA_VISIBLE_DEVICES=\"\"); use --nproc-per-node cpu "
        "or a number");
}

TEST_CASE("a virtual local rank needs a visible device for each worker") {
  HostFacts host = machine(2, 4);
  host.visible_devices = {"3"};
  host.environment = {{"CUDA_VISIBLE_DEVICES", "3"}};
  Options options = job(WorkerCount{.number = 2});
  options.virtual_local_rank = true;
  CHECK(refusal(options, host) ==
        "--virtual-local-rank: CUDA_VISIBLE_DEVICES=\"3\" names 1 devices for 2 workers; name one device for "
        "each worker or "
        "lower --nproc-per-node");
}

TEST_CASE("flags that exclude each other are refused") {
  Options options = job();
  options.module = options.no_python = true;
  CHECK(refusal(options, machine(1, 0)) ==
        "--module and --no-python exclude each other: -m needs Python; leave one away");
  options = job();
  options.config_overrides = config::parse_overrides({"/train/epochs=3"}).value();
  CHECK(refusal(options, machine(1, 0)) ==
        "--set /train/epochs=3: \"/bin/true\" is no .json job, so there is nothing to set; pass it as an "
        "argument after the "
        "program");
  options = job(WorkerCount{.number = 2});
  options.stdin_local_rank = 2;
  CHECK(refusal(options, machine(1, 0)) == "--stdin 2: the local ranks of this job are 0 to 1");
  options = job(WorkerCount{.number = 2});
  options.debug_rank = 5;
  CHECK(refusal(options, machine(1, 0)) == "--debug-rank 5: the ranks of this job are 0 to 1");
  options = job();
  options.node_rank = 1;
  CHECK(refusal(options, machine(1, 0)) == "--node-rank 1: with --nnodes 1 it must be in [0, 0]");
}

TEST_CASE("what several nodes need is checked before anything starts") {
  Options options = job();
  options.standalone = true;
  options.max_nodes = 2;
  CHECK(refusal(options, machine(1, 0)) ==
        "--standalone and --nnodes 2 exclude each other: a standalone job has one node");
  options = job();
  options.rdzv_conf.is_host = false;
  CHECK(refusal(options, machine(1, 0)) ==
        "--rdzv-conf is_host=false: a job of one node serves its own store and joins no coordinator; give "
        "--nnodes 1:2 or more to join one");
}

TEST_CASE("a log directory that cannot be written is refused before anything starts") {
  const TemporaryDirectory dir;
  std::ofstream(dir.path() + "/file") << "x";
  Options options = job();
  options.log_dir = dir.path() + "/file/logs";
  CHECK(refusal(options, machine(1, 0)) ==
        "--log-dir \"" + options.log_dir + "\": " + dir.path() + "/file is not a directory");
  options = job();
  options.events_file = "/nowhere/events.jsonl";
  CHECK(refusal(options, machine(1, 0)) ==
        "--events \"/nowhere/events.jsonl\": directory /nowhere does not exist");
  options.events_file = "/tmp";
  CHECK(refusal(options, machine(1, 0)) == "--events \"/tmp\": is a directory; name a file");
}

TEST_CASE("logs go below the log directory, under the job's id and something random") {
  Options options = job();
  options.log_dir = "tmp/logs";
  options.run_id = "a/b";
  const Plan named = plan(options, machine(1, 0)).value();
  CHECK(named.log_root == "/tmp/logs/a_b_abcdefgh");
  CHECK_FALSE(named.log_root_is_temporary);
  CHECK(attempt_directory(named, Generation(3)) == "/tmp/logs/a_b_abcdefgh/attempt_2");

  const Plan temporary = plan(job(), machine(1, 0)).value();
  CHECK(temporary.log_root == "/tmp/ddprun_none_abcdefgh");
  CHECK(temporary.log_root_is_temporary);

  options.log_dir = "/dev/null";
  CHECK(plan(options, machine(1, 0)).value().log_root.empty());
}

TEST_CASE("one node needs no agreed port") {
  CHECK(plan(job(), machine(1, 0)).value().meeting.port == Port(0));
  Options options = job();
  options.master_port = 1234;
  options.master_addr = "::1";
  const Plan fixed = plan(options, machine(1, 0)).value();
  CHECK(fixed.meeting.port == Port(1234));
  CHECK(fixed.meeting.host == "::1");
}

TEST_CASE("an endpoint is where one node serves its store, too") {
  Options options = job();
  options.rdzv_backend = RdzvBackend::kC10d;
  options.rdzv_endpoint = Endpoint{"localhost", Port(29400)};
  CHECK(plan(options, machine(1, 0)).value().meeting.port == Port(29400));
  CHECK(plan(options, machine(1, 0)).value().meeting.host == "localhost");
  options.rdzv_backend = RdzvBackend::kStatic;
  options.rdzv_endpoint = Endpoint{"::1", std::nullopt};
  CHECK(refusal(options, machine(1, 0)) ==
        "--rdzv-endpoint \"[::1]\": the port is missing; write [::1]:29500");
}

TEST_CASE("several nodes that name no port agree on torchrun's; port 0 is the kernel's choice") {
  Options options = job();
  options.min_nodes = options.max_nodes = 2;
  CHECK(plan(options, machine(1, 0)).value().meeting.port == Port(29500));
  options.master_port = 0;
  const Plan chosen = plan(options, machine(1, 0)).value();
  CHECK(chosen.meeting.port == Port(0));
  CHECK_THAT(describe_meeting(chosen), Catch::Contains("they meet at 127.0.0.1, at a port that the kernel "
                                                       "chooses, where this node listens\n"));
  options.master_port.reset();
  options.rdzv_backend = RdzvBackend::kC10d;
  options.rdzv_endpoint = Endpoint{"node-a", std::nullopt};
  CHECK(plan(options, machine(1, 0)).value().meeting.port == Port(29400));
  options.rdzv_endpoint = Endpoint{"node-a", Port(0)};
  CHECK(plan(options, machine(1, 0)).value().meeting.port == Port(0));
}

TEST_CASE("a standalone job has an id of its own and stays on this machine") {
  Options options = job();
  options.standalone = true;
  options.run_id = "ignored";
  const Plan standalone = plan(options, machine(1, 0)).value();
  CHECK(standalone.options.run_id == "standalone-abcdefgh");
  CHECK(standalone.meeting.host == "127.0.0.1");
}

TEST_CASE("a dry run of several nodes shows the ranks of this one, and says what is not known yet") {
  Options options = job(WorkerCount{.number = 2});
  options.min_nodes = options.max_nodes = 2;
  options.node_rank = 1;
  options.master_addr = "node-a";
  const Plan fixed = plan(options, machine(2, 0)).value();
  const std::string text = describe(fixed, worker_specs(fixed, expected_round(fixed)));
  CHECK_THAT(text,
             Catch::Contains(
                 "nodes      2, this is node 1; they meet at node-a port 29500, where another node listens\n"
                 "           the ranks below are as if each node had 2 workers; the rendezvous decides\n"));
  CHECK_THAT(text, Catch::Contains("rank 3 (local rank 1)") && Catch::Contains("WORLD_SIZE=4") &&
                       Catch::Contains("GROUP_RANK=1") && Catch::Contains("MASTER_PORT=29500"));

  options.node_rank.reset();
  options.max_nodes = 4;
  options.rdzv_backend = RdzvBackend::kC10d;
  options.rdzv_endpoint = Endpoint{"node-a", Port(29400)};
  const Plan elastic = plan(options, machine(2, 0)).value();
  CHECK(describe_meeting(elastic) ==
        "nodes      2 to 4, this node's rank is not known yet; they meet at node-a port 29400, where the "
        "node listens to "
        "which that address belongs, or ddprun coordinator\n"
        "           the ranks below are those of node 0 of 4, as if each node had 2 workers; the rendezvous "
        "decides\n");
}
