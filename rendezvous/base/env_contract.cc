#include "rendezvous/base/env_contract.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace ddprun {
namespace {

constexpr std::string_view kHowToLaunch = "start this program with `ddprun --nproc-per-node N ./program`";

// Reads variables one after the other and keeps the first problem, so that the caller reads like a table.
class Reader {
 public:
  explicit Reader(const EnvLookup& lookup) : lookup_(lookup) {}

  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }

  std::string text(std::string_view name, std::string fallback) {
    return lookup_(name).value_or(std::move(fallback));
  }

  std::string required_text(std::string_view name) {
    std::optional<std::string> value = lookup_(name);
    if (!value || value->empty()) {
      fail(fmt::format("environment variable {} is not set; {}", name, kHowToLaunch));
      return {};
    }
    return *value;
  }

  int integer(std::string_view name, int fallback, int lowest, int highest) {
    const std::optional<std::string> value = lookup_(name);
    return value ? parse(name, *value, lowest, highest) : fallback;
  }

  int required_integer(std::string_view name, int lowest, int highest) {
    const std::string value = required_text(name);
    return problem_ ? lowest : parse(name, value, lowest, highest);
  }

 private:
  int parse(std::string_view name, const std::string& value, int lowest, int highest) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < lowest || number > highest) {
      fail(fmt::format("environment variable {}=\"{}\": expected an integer in [{}, {}]; {}", name, value,
                       lowest, highest, kHowToLaunch));
      return lowest;
    }
    return number;
  }

  void fail(std::string message) {
    if (!problem_) problem_ = Error(ErrorCode::kConfig, std::move(message));
  }

  const EnvLookup& lookup_;
  std::optional<Error> problem_;
};

constexpr int kMaxWorld = 1 << 24;

}  // namespace

std::optional<std::string> process_env(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<std::string> take_process_env(std::string_view name) {
  std::optional<std::string> value = process_env(name);
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text(*each);
    if (text.size() > name.size() && text.substr(0, name.size()) == name && text[name.size()] == '=')
      ::explicit_bzero(*each + name.size() + 1, text.size() - name.size() - 1);
  }
  ::unsetenv(std::string(name).c_str());
  return value;
}

std::vector<std::pair<std::string, std::string>> to_environment(const WorkerEnv& env) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto add = [&](std::string_view name, std::string value) {
    variables.emplace_back(std::string(name), std::move(value));
  };
  add(env_name::kLocalRank, to_string(env.local_rank));
  add(env_name::kRank, to_string(env.rank));
  add(env_name::kGroupRank, to_string(env.group_rank));
  add(env_name::kRoleRank, to_string(env.role_rank));
  add(env_name::kRoleName, env.role_name);
  add(env_name::kLocalWorldSize, to_string(env.local_world_size));
  add(env_name::kWorldSize, to_string(env.world_size));
  add(env_name::kGroupWorldSize, std::to_string(env.group_world_size));
  add(env_name::kRoleWorldSize, to_string(env.role_world_size));
  add(env_name::kMasterAddr, env.master_addr);
  add(env_name::kMasterPort, to_string(env.master_port));
  add(env_name::kRestartCount, std::to_string(env.restart_count));
  add(env_name::kMaxRestarts, std::to_string(env.max_restarts));
  add(env_name::kRunId, env.run_id);
  add(env_name::kUseAgentStore, env.use_agent_store ? "True" : "False");
  if (!env.error_file.empty()) add(env_name::kErrorFile, env.error_file);
  return variables;
}

Result<WorkerEnv> parse_worker_env(const EnvLookup& lookup) {
  Reader read(lookup);
  WorkerEnv env;
  const int world = read.required_integer(env_name::kWorldSize, 1, kMaxWorld);
  env.world_size = WorldSize(world);
  env.rank = Rank(read.required_integer(env_name::kRank, 0, world - 1));
  env.master_addr = read.required_text(env_name::kMasterAddr);
  env.master_port = Port(static_cast<std::uint16_t>(read.required_integer(env_name::kMasterPort, 1, 65535)));
  env.local_world_size = LocalWorldSize(read.integer(env_name::kLocalWorldSize, 1, 1, world));
  // Under --virtual-local-rank every worker has local rank 0, so only the upper bound can be checked.
  env.local_rank = LocalRank(read.integer(env_name::kLocalRank, 0, 0, kMaxWorld));
  env.group_rank = NodeRank(read.integer(env_name::kGroupRank, 0, 0, kMaxWorld));
  env.group_world_size = read.integer(env_name::kGroupWorldSize, 1, 1, kMaxWorld);
  env.role_rank = Rank(read.integer(env_name::kRoleRank, env.rank.value(), 0, kMaxWorld));
  env.role_world_size = WorldSize(read.integer(env_name::kRoleWorldSize, world, 1, kMaxWorld));
  env.role_name = read.text(env_name::kRoleName, "default");
  env.restart_count = read.integer(env_name::kRestartCount, 0, 0, kMaxWorld);
  env.max_restarts = read.integer(env_name::kMaxRestarts, 0, 0, kMaxWorld);
  env.run_id = read.text(env_name::kRunId, "none");
  env.use_agent_store = read.text(env_name::kUseAgentStore, "False") == "True";
  env.error_file = read.text(env_name::kErrorFile, "");
  if (read.problem()) return *read.problem();
  return env;
}

bool is_launched(const EnvLookup& lookup) {
  return lookup(env_name::kRank).has_value() && lookup(env_name::kWorldSize).has_value();
}

}  // namespace ddprun
