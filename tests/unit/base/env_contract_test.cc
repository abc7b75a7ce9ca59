#include "rendezvous/base/env_contract.h"

#include "tests/support/catch.h"

#include <map>

using namespace ddprun;

namespace {

EnvLookup lookup_in(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::map<std::string, std::string> minimal() {
  return {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
}

std::string error_of(std::map<std::string, std::string> variables) {
  const Result<WorkerEnv> env = parse_worker_env(lookup_in(std::move(variables)));
  REQUIRE(env.has_error());
  return env.error().message();
}

}  // namespace

TEST_CASE("what the launcher writes, the worker reads back") {
  WorkerEnv written;
  written.rank = Rank(5);
  written.local_rank = LocalRank(1);
  written.world_size = WorldSize(8);
  written.local_world_size = LocalWorldSize(4);
  written.group_rank = NodeRank(1);
  written.group_world_size = 2;
  written.role_rank = Rank(5);
  written.role_world_size = WorldSize(8);
  written.role_name = "trainer";
  written.master_addr = "node-a";
  written.master_port = Port(4711);
  written.restart_count = 2;
  written.max_restarts = 3;
  written.run_id = "cifar-17";
  written.error_file = "/logs/1/error.json";

  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : to_environment(written)) variables[name] = value;
  const WorkerEnv read = parse_worker_env(lookup_in(variables)).value();

  CHECK(read.rank == written.rank);
  CHECK(read.local_rank == written.local_rank);
  CHECK(read.world_size == written.world_size);
  CHECK(read.local_world_size == written.local_world_size);
  CHECK(read.group_rank == written.group_rank);
  CHECK(read.group_world_size == written.group_world_size);
  CHECK(read.role_rank == written.role_rank);
  CHECK(read.role_world_size == written.role_world_size);
  CHECK(read.role_name == written.role_name);
  CHECK(read.master_addr == written.master_addr);
  CHECK(read.master_port == written.master_port);
  CHECK(read.restart_count == written.restart_count);
  CHECK(read.max_restarts == written.max_restarts);
  CHECK(read.run_id == written.run_id);
  CHECK(read.use_agent_store);
  CHECK(read.error_file == written.error_file);
}

TEST_CASE("booleans are Python's, because libtorch compares the text") {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : to_environment(WorkerEnv{})) variables[name] = value;
  CHECK(variables.at("TORCHELASTIC_USE_AGENT_STORE") == "True");
}

TEST_CASE("four variables are enough, as in libtorch's env:// rendezvous") {
  const WorkerEnv env = parse_worker_env(lookup_in(minimal())).value();
  CHECK(env.rank == Rank(1));
  CHECK(env.world_size == WorldSize(4));
  CHECK_FALSE(env.use_agent_store);
}

TEST_CASE("a missing variable is named, with the way to launch") {
  CHECK(error_of({}) ==
        "environment variable WORLD_SIZE is not set; start this program with `ddprun --nproc-per-node N ./program`");
}

TEST_CASE("a rank outside the world is refused with the range") {
  auto variables = minimal();
  variables["RANK"] = "4";
  CHECK(error_of(variables) ==
        "environment variable RANK=\"4\": expected an integer in [0, 3]; start this program with `ddprun "
        "--nproc-per-node N ./program`");
}

TEST_CASE("a number with rubbish behind it is refused") {
  auto variables = minimal();
  variables["MASTER_PORT"] = "29500x";
  CHECK(error_of(variables).find("MASTER_PORT=\"29500x\"") != std::string::npos);
}

TEST_CASE("a process without RANK was not launched") {
  CHECK_FALSE(is_launched(lookup_in({{"WORLD_SIZE", "2"}})));
  CHECK(is_launched(lookup_in(minimal())));
}
