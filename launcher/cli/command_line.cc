#include "launcher/cli/command_line.h"

#include "launcher/cli/commands.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/syntax.h"
#include "launcher/cli/values.h"
#include "rendezvous/membership/scheduler_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace ddprun::launcher {
namespace {

std::vector<FlagSyntax> run_syntax() {
  std::vector<FlagSyntax> table;
  for (const RunFlag& flag : run_flags()) table.push_back(flag.syntax);
  return table;
}

/// What was written of a flag.
struct Said {
  std::size_t flag = 0;
  std::vector<std::string> values;
  std::string origin;  ///< "--nnodes", "environment variable PET_NNODES"
};

/// PET_ variables, and the one that torchrun reads without that prefix, for flags that the command line
/// leaves open.
void add_environment(std::vector<Said>& all, const EnvLookup& env, const std::set<std::size_t>& given) {
  const std::span<const RunFlag> flags = run_flags();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    std::string name = environment_variable(flags[i]);
    if (name.empty() || given.count(i) > 0) continue;
    std::optional<std::string> value = env(name);
    if (!value && flags[i].syntax.name == "shutdown-timeout") {
      name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
      value = env(name);
    }
    if (value) all.push_back({i, {*value}, "environment variable " + name});
  }
}

Result<void> apply(Options& options, const Said& said) {
  Result<void> set = run_flags()[said.flag].set(options, said.values);
  return set ? set : Result<void>(set.error().with(said.origin));
}

Result<void> apply_all(Options& options, const std::vector<Said>& all) {
  std::map<std::size_t, const Said*> last;
  for (const Said& said : all) {
    if (run_flags()[said.flag].reading != FlagReading::kAtOnce) {
      last[said.flag] = &said;
    } else if (Result<void> applied = apply(options, said); !applied) {
      return applied;
    }
  }
  for (const auto& [flag, said] : last) {
    if (options.standalone && run_flags()[flag].reading == FlagReading::kLastUnlessStandalone) continue;
    if (Result<void> applied = apply(options, *said); !applied) return applied;
  }
  return ok();
}

/// Whether the command line or a PET_ variable has this flag.
bool is_said(std::string_view name, const EnvLookup& env, const std::set<std::size_t>& given) {
  const std::span<const RunFlag> flags = run_flags();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].syntax.name == name) return given.count(i) > 0 || env(environment_variable(flags[i]));
  }
  return false;
}

/// Takes from a scheduler's environment what the flags leave open of nodes, rank and address, unless they
/// settle where the nodes meet.
Result<void> apply_scheduler(Options& options, const EnvLookup& env, const std::set<std::size_t>& given) {
  const auto says = [&](std::string_view name) { return is_said(name, env, given); };
  if (says("standalone") || says("rdzv-endpoint") || says("node-rank")) return ok();
  if (says("nnodes") && options.max_nodes == 1) return ok();
  const auto world = membership::recognise_scheduler(env);
  if (!world) return world.error();
  if (!*world) return ok();
  const membership::SchedulerWorld& found = **world;
  if (found.first_host.empty() && !says("master-addr")) {
    return usage_error(fmt::format(
        "{} started ddprun on {} nodes but does not tell the first one's name; add --master-addr HOST, "
        "or --standalone for a job of this node alone",
        found.scheduler, found.nodes));
  }
  if (!says("nnodes")) options.min_nodes = options.max_nodes = found.nodes;
  // In an elastic job ranks follow who is there.
  if (!options.is_elastic()) options.node_rank = found.node_rank;
  if (!says("master-addr")) options.master_addr = found.first_host;
  if (!says("master-port")) options.master_port = found.port.value();
  if (options.run_id == Options{}.run_id) options.run_id = found.run_id;
  return ok();
}

std::vector<std::string> values_of(const FlagUse& use) {
  return use.values.empty() ? std::vector<std::string>{"1"} : use.values;
}

Result<CommandLine> parse_run(std::span<const std::string> args, const EnvLookup& env) {
  const std::vector<FlagSyntax> syntax = run_syntax();
  Result<ParsedArgs> parsed = split_args(syntax, args);
  if (!parsed) return parsed.error();

  for (const FlagUse& use : parsed->flags) {
    const std::string_view name = syntax[use.flag].name;
    if (name == "help") return CommandLine(HelpCommand());
    if (name == "version") return CommandLine(PrintCommand{version_text()});
    if (name == "print-completion") {
      Result<std::string> shell = parse_choice(use.values[0], completion_shells());
      if (!shell) return shell.error().with("--print-completion");
      return CommandLine(CompletionsCommand{*shell});
    }
  }
  Options options;
  std::set<std::size_t> given;
  std::vector<Said> all;
  for (const FlagUse& use : parsed->flags) {
    given.insert(use.flag);
    all.push_back({use.flag, values_of(use), fmt::format("--{}", syntax[use.flag].name)});
  }
  add_environment(all, env, given);
  if (Result<void> applied = apply_all(options, all); !applied) return applied.error();
  if (Result<void> applied = apply_scheduler(options, env, given); !applied) return applied.error();

  if (parsed->rest.empty()) {
    return usage_error("nothing to run: name a job.json, script.py or program after the flags");
  }
  options.entrypoint = parsed->rest.front();
  options.entrypoint_args.assign(parsed->rest.begin() + 1, parsed->rest.end());
  if (options.entrypoint.empty())
    return usage_error("the program's name is empty; is a shell variable unset?");
  return CommandLine(std::move(options));
}

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> args, const EnvLookup& env) {
  if (!args.empty() && is_command(args[0])) return parse_command(args[0], args.subspan(1));
  return parse_run(args, env);
}

}  // namespace ddprun::launcher
