#include "launcher/cli.h"

#include "launcher/cli_flags.h"
#include "launcher/cli_syntax.h"
#include "launcher/cli_values.h"
#include "rendezvous/base/suggest.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <vector>

namespace ddprun::launcher {
namespace {

Error usage(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

std::vector<FlagSyntax> run_syntax() {
  std::vector<FlagSyntax> table;
  for (const RunFlag& flag : run_flags()) table.push_back(flag.syntax);
  return table;
}

/// PET_ variables, and the one that torchrun reads without that prefix, for flags that the command line
/// leaves open.
Result<void> apply_environment(Options& options, const EnvLookup& env, const std::set<std::size_t>& given) {
  const std::span<const RunFlag> flags = run_flags();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    std::string name = environment_variable(flags[i]);
    if (name.empty() || given.count(i) > 0) continue;
    std::optional<std::string> value = env(name);
    if (!value && flags[i].syntax.name == "shutdown-timeout") {
      name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
      value = env(name);
    }
    if (!value) continue;
    const std::array<std::string, 1> values{*value};
    if (Result<void> set = flags[i].set(options, values); !set) {
      return set.error().with(fmt::format("environment variable {}", name));
    }
  }
  return ok();
}

std::vector<std::string> values_of(const FlagUse& use) {
  return use.values.empty() ? std::vector<std::string>{"1"} : use.values;
}

Result<CommandLine> parse_run(std::span<const std::string> args, const EnvLookup& env) {
  const std::vector<FlagSyntax> syntax = run_syntax();
  Result<ParsedArgs> parsed = split_args(syntax, args);
  if (!parsed) return parsed.error();

  CommandLine line;
  for (const FlagUse& use : parsed->flags) {
    const std::string_view name = syntax[use.flag].name;
    if (name == "help") return CommandLine{.command = Command::kHelp, .text = help_text()};
    if (name == "version") return CommandLine{.command = Command::kVersion, .text = version_text()};
  }
  std::set<std::size_t> given;
  for (const FlagUse& use : parsed->flags) {
    given.insert(use.flag);
    Result<void> set = run_flags()[use.flag].set(line.options, values_of(use));
    if (!set) return set.error().with(fmt::format("--{}", syntax[use.flag].name));
  }
  if (Result<void> applied = apply_environment(line.options, env, given); !applied) return applied.error();

  if (parsed->rest.empty()) {
    return usage("nothing to run: name a job.json, script.py or program after the flags");
  }
  line.options.entrypoint = parsed->rest.front();
  line.options.entrypoint_args.assign(parsed->rest.begin() + 1, parsed->rest.end());
  if (line.options.entrypoint.empty())
    return usage("the program's name is empty; is a shell variable unset?");
  return line;
}

/// Flags of a command without a program of its own behind them.
Result<ParsedArgs> split_command(std::span<const FlagSyntax> table, std::span<const std::string> args,
                                 std::size_t most_words, std::string_view how) {
  Result<ParsedArgs> parsed = split_args(table, args);
  if (parsed && parsed->rest.size() > most_words) {
    return usage(fmt::format("unexpected \"{}\"; {}", parsed->rest[most_words], how));
  }
  return parsed;
}

Result<CommandLine> parse_store(std::span<const std::string> args) {
  static constexpr std::array kTable{FlagSyntax{"host", '\0', "ADDR"}, FlagSyntax{"port", '\0', "N"},
                                     FlagSyntax{"fd", '\0', "N"}, FlagSyntax{"help", 'h', ""}};
  Result<ParsedArgs> parsed = split_command(
      kTable, args, 0, "write ddprun store [--host ADDR] [--port N | --fd N], or ./store for a program");
  if (!parsed) return parsed.error().with("ddprun store");

  CommandLine line;
  line.command = Command::kStore;
  for (const FlagUse& use : parsed->flags) {
    const std::string_view name = kTable[use.flag].name;
    if (name == "help") return CommandLine{.command = Command::kHelp, .text = help_text()};
    if (name == "host") {
      line.store.host = use.values[0];
      continue;
    }
    Result<int> number = parse_integer(use.values[0], 0, 65535);
    if (!number) return number.error().with(fmt::format("ddprun store: --{}", name));
    if (name == "port") line.store.port = *number;
    if (name == "fd") line.store.inherited_fd = *number;
  }
  return line;
}

Result<CommandLine> parse_ps(std::span<const std::string> args) {
  static constexpr std::array kTable{FlagSyntax{"json", '\0', ""}, FlagSyntax{"help", 'h', ""}};
  Result<ParsedArgs> parsed =
      split_command(kTable, args, 0, "write ddprun ps [--json], or ddprun -- ps … for the program ps");
  if (!parsed) return parsed.error().with("ddprun ps");
  CommandLine line;
  line.command = Command::kPs;
  for (const FlagUse& use : parsed->flags) {
    if (kTable[use.flag].name == "help") return CommandLine{.command = Command::kHelp, .text = help_text()};
    line.ps_json = true;
  }
  return line;
}

Result<CommandLine> parse_completions(std::span<const std::string> args) {
  static const std::vector<std::string> kShells{"bash", "zsh"};
  CommandLine line;
  line.command = Command::kCompletions;
  if (args.size() != 1) return usage("ddprun completions: name one shell, bash or zsh");
  Result<std::string> shell = parse_choice(args[0], kShells);
  if (!shell) return shell.error().with("ddprun completions");
  line.shell = *shell;
  return line;
}

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> args, const EnvLookup& env) {
  if (!args.empty() && args[0] == "store") return parse_store(args.subspan(1));
  if (!args.empty() && args[0] == "ps") return parse_ps(args.subspan(1));
  if (!args.empty() && args[0] == "completions") return parse_completions(args.subspan(1));
  return parse_run(args, env);
}

}  // namespace ddprun::launcher
