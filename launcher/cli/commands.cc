#include "launcher/cli/commands.h"

#include "launcher/cli/syntax.h"
#include "launcher/cli/values.h"
#include "rendezvous/config/job_commands.h"
#include "rendezvous/membership/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr std::array kStoreFlags{FlagSyntax{"host", '\0', "ADDR"}, FlagSyntax{"port", '\0', "N"},
                                 FlagSyntax{"fd", '\0', "N"}, FlagSyntax{"help", 'h', ""}};
constexpr std::array kPsFlags{FlagSyntax{"json", '\0', ""}, FlagSyntax{"help", 'h', ""}};
constexpr std::array kDoctorFlags{FlagSyntax{"help", 'h', ""}};
constexpr std::array kWhyFlags{FlagSyntax{"json", '\0', ""}, FlagSyntax{"help", 'h', ""}};
constexpr std::array kCoordinatorFlags{FlagSyntax{"bind", '\0', "[HOST:]PORT"},
                                       FlagSyntax{"nnodes", '\0', "N|MIN:MAX"},
                                       FlagSyntax{"rdzv-id", '\0', "ID"},
                                       FlagSyntax{"max-restarts", '\0', "N"},
                                       FlagSyntax{"max-restarts-window", '\0', "TIME"},
                                       FlagSyntax{"rdzv-conf", '\0', "K=V,..."},
                                       FlagSyntax{"rdzv-secret-file", '\0', "FILE"},
                                       FlagSyntax{"help", 'h', ""}};
constexpr std::array kDrainFlags{FlagSyntax{"rdzv-endpoint", '\0', "HOST:PORT"},
                                 FlagSyntax{"rdzv-id", '\0', "ID"}, FlagSyntax{"node-rank", '\0', "R"},
                                 FlagSyntax{"rdzv-secret-file", '\0', "FILE"}, FlagSyntax{"help", 'h', ""}};

/// Flags of a command without a program of its own behind them.
Result<ParsedArgs> split_command(std::span<const FlagSyntax> table, std::span<const std::string> args,
                                 std::size_t most_words, std::string_view how) {
  Result<ParsedArgs> parsed = split_args(table, args);
  if (parsed && parsed->rest.size() > most_words) {
    return usage_error(fmt::format("unexpected \"{}\"; {}", parsed->rest[most_words], how));
  }
  return parsed;
}

Result<CommandLine> parse_store(std::span<const std::string> args) {
  Result<ParsedArgs> parsed = split_command(
      kStoreFlags, args, 0, "write ddprun store [--host ADDR] [--port N | --fd N], or ./store for a program");
  if (!parsed) return parsed.error().with("store");

  CommandLine line;
  line.command = Command::kStore;
  for (const FlagUse& use : parsed->flags) {
    const std::string_view name = kStoreFlags[use.flag].name;
    if (name == "help") return CommandLine{.command = Command::kHelp};
    if (name == "host") {
      line.store.host = use.values[0];
      continue;
    }
    Result<int> number = parse_integer(use.values[0], 0, 65535);
    if (!number) return number.error().with(fmt::format("store: --{}", name));
    if (name == "port") line.store.port = Port(static_cast<std::uint16_t>(*number));
    if (name == "fd") line.store.inherited_fd = *number;
  }
  return line;
}

Result<CommandLine> parse_ps(std::span<const std::string> args) {
  Result<ParsedArgs> parsed =
      split_command(kPsFlags, args, 0, "write ddprun ps [--json], or ddprun -- ps … for the program ps");
  if (!parsed) return parsed.error().with("ps");
  CommandLine line;
  line.command = Command::kPs;
  for (const FlagUse& use : parsed->flags) {
    if (kPsFlags[use.flag].name == "help") return CommandLine{.command = Command::kHelp};
    line.ps_json = true;
  }
  return line;
}

Result<CommandLine> parse_doctor(std::span<const std::string> args) {
  Result<ParsedArgs> parsed =
      split_command(kDoctorFlags, args, 0, "write ddprun doctor alone, or ./doctor for a program");
  if (!parsed) return parsed.error().with("doctor");
  return CommandLine{.command = parsed->flags.empty() ? Command::kDoctor : Command::kHelp};
}

Result<CommandLine> parse_why(std::span<const std::string> args) {
  CommandLine line;
  line.command = Command::kWhy;
  std::vector<std::string> words;
  // Flags may stand behind the job.
  std::vector<std::string> left(args.begin(), args.end());
  while (!left.empty()) {
    const Result<ParsedArgs> parsed = split_args(kWhyFlags, left);
    if (!parsed) return parsed.error().with("why");
    for (const FlagUse& use : parsed->flags) {
      if (kWhyFlags[use.flag].name == "help") return CommandLine{.command = Command::kHelp};
      line.why_json = true;
    }
    left.clear();
    if (parsed->rest.empty()) break;
    words.push_back(parsed->rest.front());
    left.assign(parsed->rest.begin() + 1, parsed->rest.end());
  }
  if (words.size() > 1)
    return usage_error(fmt::format("why: unexpected \"{}\"; write ddprun why [JOB|PID] [--json]", words[1]));
  if (words.empty()) return line;
  if (words.front().empty()) return usage_error("why: \"\" is no job: is a variable unset?");
  line.why_job = words.front();
  return line;
}

Result<void> take_file_name(std::string& file, const std::string& value) {
  Result<std::string> name = parse_file_name(value);
  if (!name) return name.error();
  file = std::move(*name);
  return ok();
}

Result<void> set_coordinator_flag(CoordinatorOptions& options, std::string_view name,
                                  const std::string& value) {
  if (name == "rdzv-id") options.spec.run_id = value;
  if (name == "rdzv-secret-file") return take_file_name(options.secret_file, value);
  if (name == "bind") {
    const Result<Endpoint> place = parse_endpoint(value, LoneWord::kPort);
    if (!place) return place.error();
    options.host = place->host;
    options.port = *place->port;
  }
  if (name == "nnodes") {
    const Result<NodeRange> nodes = parse_node_range(value);
    if (!nodes) return nodes.error();
    options.spec.min_nodes = nodes->lowest;
    options.spec.max_nodes = nodes->highest;
  }
  if (name == "max-restarts") {
    const Result<int> restarts = parse_integer(value, 0, std::numeric_limits<int>::max());
    if (!restarts) return restarts.error();
    options.spec.max_restarts = *restarts;
  }
  if (name == "max-restarts-window") {
    const Result<std::chrono::milliseconds> window = parse_duration(value);
    if (!window) return window.error();
    options.spec.max_restarts_window = *window;
  }
  if (name == "rdzv-conf") {
    const Result<membership::RdzvConf> conf = parse_rdzv_conf(value);
    if (!conf) return conf.error();
    options.timing = conf->timing;
  }
  return ok();
}

Result<CommandLine> parse_coordinator(std::span<const std::string> args) {
  Result<ParsedArgs> parsed = split_command(
      kCoordinatorFlags, args, 0, "write ddprun coordinator --bind [HOST:]PORT --nnodes N --rdzv-id ID");
  if (!parsed) return parsed.error().with("coordinator");
  CommandLine line;
  line.command = Command::kCoordinator;
  for (const FlagUse& use : parsed->flags) {
    const std::string_view name = kCoordinatorFlags[use.flag].name;
    if (name == "help") return CommandLine{.command = Command::kHelp};
    if (Result<void> set = set_coordinator_flag(line.coordinator, name, use.values[0]); !set) {
      return set.error().with(fmt::format("coordinator: --{}", name));
    }
  }
  if (line.coordinator.spec.max_nodes == 1) {
    return usage_error(
        "coordinator: a job of one node serves its own store and joins no coordinator; give --nnodes N or "
        "MIN:MAX, for two nodes or more");
  }
  return line;
}

Result<void> set_drain_flag(DrainOptions& options, std::string_view name, const std::string& value) {
  if (name == "rdzv-id") options.run_id = value;
  if (name == "rdzv-secret-file") return take_file_name(options.secret_file, value);
  if (name == "rdzv-endpoint") {
    const Result<Endpoint> place = parse_endpoint(value, LoneWord::kPort);
    if (!place) return place.error();
    options.host = place->host.empty() ? "127.0.0.1" : place->host;
    options.port = *place->port;
  }
  if (name == "node-rank") {
    const Result<int> rank = parse_integer(value, 0, std::numeric_limits<int>::max());
    if (!rank) return rank.error();
    options.node = NodeRank(*rank);
  }
  return ok();
}

Result<CommandLine> parse_drain(std::span<const std::string> args) {
  constexpr std::string_view kHow =
      "write ddprun drain [JOB|PID], or ddprun drain --rdzv-endpoint HOST:PORT --rdzv-id ID [--node-rank R]";
  Result<ParsedArgs> parsed = split_command(kDrainFlags, args, 1, kHow);
  if (!parsed) return parsed.error().with("drain");
  CommandLine line;
  line.command = Command::kDrain;
  for (const FlagUse& use : parsed->flags) {
    const std::string_view name = kDrainFlags[use.flag].name;
    if (name == "help") return CommandLine{.command = Command::kHelp};
    if (Result<void> set = set_drain_flag(line.drain, name, use.values[0]); !set) {
      return set.error().with(fmt::format("drain: --{}", name));
    }
  }
  if (line.drain.host.empty()) {
    if (!parsed->flags.empty()) return usage_error(fmt::format("drain: where is the coordinator? {}", kHow));
    if (!parsed->rest.empty() && parsed->rest.front().empty()) {
      return usage_error(fmt::format("drain: \"\" is no job: is a variable unset? {}", kHow));
    }
    line.drain_here = parsed->rest.empty() ? std::string() : parsed->rest.front();
  } else if (!parsed->rest.empty()) {
    return usage_error(
        fmt::format("drain: \"{}\" and an endpoint are two jobs; {}", parsed->rest.front(), kHow));
  }
  return line;
}

Result<CommandLine> parse_completions(std::span<const std::string> args) {
  CommandLine line;
  line.command = Command::kCompletions;
  if (args.size() != 1) return usage_error("completions: name one shell: bash, zsh or tcsh");
  Result<std::string> shell = parse_choice(args[0], completion_shells());
  if (!shell) return shell.error().with("completions");
  line.shell = *shell;
  return line;
}

using Parser = Result<CommandLine> (*)(std::span<const std::string>);

struct CommandEntry {
  std::string_view name;
  Parser parse;
  std::span<const FlagSyntax> flags;
};

constexpr std::array<CommandEntry, 7> kCommands{{{"store", parse_store, kStoreFlags},
                                                 {"ps", parse_ps, kPsFlags},
                                                 {"doctor", parse_doctor, kDoctorFlags},
                                                 {"why", parse_why, kWhyFlags},
                                                 {"completions", parse_completions, {}},
                                                 {"coordinator", parse_coordinator, kCoordinatorFlags},
                                                 {"drain", parse_drain, kDrainFlags}}};

const CommandEntry* find_command(std::string_view name) {
  const auto found = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const CommandEntry& entry) { return entry.name == name; });
  return found == kCommands.end() ? nullptr : &*found;
}

using FlagsByCommand = std::map<std::string_view, std::vector<FlagSyntax>>;

FlagsByCommand flags_of_job_commands() {
  FlagsByCommand flags;
  for (const config::JobCommand& command : config::job_commands()) {
    for (const config::JobCommandFlag& flag : command.flags)
      flags[command.name].push_back({flag.name, flag.short_name, flag.metavar});
  }
  return flags;
}

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : kCommands) names.emplace_back(entry.name);
  for (const config::JobCommand& command : config::job_commands()) names.emplace_back(command.name);
  return names;
}

bool is_command(const std::string& word) {
  return find_command(word) != nullptr || config::find_job_command(word) != nullptr;
}

std::span<const FlagSyntax> command_flags(std::string_view command) {
  static const FlagsByCommand kJobFlags = flags_of_job_commands();
  const CommandEntry* const found = find_command(command);
  if (found != nullptr) return found->flags;
  const auto of_job = kJobFlags.find(command);
  return of_job == kJobFlags.end() ? std::span<const FlagSyntax>() : std::span(of_job->second);
}

bool takes_file(std::string_view command) {
  const config::JobCommand* const found = config::find_job_command(command);
  return found != nullptr && found->words.starts_with("JOB");
}

Result<CommandLine> parse_command(const std::string& command, std::span<const std::string> args) {
  if (config::find_job_command(command) != nullptr) {
    CommandLine line{.command = Command::kJobCommand};
    line.job_command.push_back(command);
    line.job_command.insert(line.job_command.end(), args.begin(), args.end());
    return line;
  }
  const CommandEntry* const found = find_command(command);
  if (found == nullptr) return usage_error(fmt::format("\"{}\" is no command", command));
  return found->parse(args);
}

}  // namespace ddprun::launcher
