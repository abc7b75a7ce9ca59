#include "launcher/cli/commands.h"

#include "launcher/cli/flag_setters.h"
#include "launcher/cli/syntax.h"
#include "launcher/cli/values.h"
#include "rendezvous/config/job_commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

namespace ddprun::launcher {
namespace {

constexpr int kMostDoctorHosts = 256;  // each probes each
constexpr int kMost = std::numeric_limits<int>::max();

/// A command is declared once, and parsing, help and completions follow from that.
struct CommandEntry {
  std::string name;
  std::vector<CommandUsage> usages;
  std::string as_program;  ///< how to run a program of that name; may be empty
  /// Makes `line` that command with its defaults, which the flags then set.
  void (*declare)(CLI::App& app, CommandLine& line);
  /// What no flag alone can tell; may be null. `how` says how the command is written.
  Result<void> (*check)(CommandLine& line, const CLI::App& app, const std::string& how);
};

/// A flag with a value that `set` reads.
template <class Set>
void add_flag(CLI::App& app, const std::string& name, const std::string& metavar, const std::string& help,
              Set set) {
  const auto read = [name, set](const std::string& text) {
    if (const Result<void> done = set(text); !done)
      throw CLI::ValidationError("--" + name, done.error().message());
  };
  app.add_option_function<std::string>("--" + name, read, help)
      ->type_name(metavar)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

/// Stores a parsed value, or hands its error on.
template <class Member, class Parsed>
Result<void> keep(Member& member, Result<Parsed> parsed) {
  if (!parsed) return parsed.error();
  member = Member(std::move(*parsed));
  return ok();
}

template <class Member>
auto into(Member& member, int lowest, int highest) {
  return [&member, lowest, highest](const std::string& text) {
    return keep(member, parse_integer(text, lowest, highest));
  };
}

auto into_text(std::string& member) {
  return [&member](const std::string& text) {
    member = text;
    return ok();
  };
}

auto into_file(std::string& member) {
  return [&member](const std::string& text) { return keep(member, parse_file_name(text)); };
}

auto into_place(std::string& host, Port& port) {
  return [&host, &port](const std::string& text) -> Result<void> {
    Result<Endpoint> place = parse_endpoint(text, LoneWord::kPort);
    if (!place) return place.error();
    host = std::move(place->host);
    port = *place->port;
    return ok();
  };
}

/// The word that is no flag: a job of this host.
void add_job(CLI::App& app, std::optional<std::string>& job) {
  app.add_option("job", job,
                 "a job of this host: its pid, its name or the tag that ddprun ps shows [the only one]")
      ->type_name("JOB|PID");
}

Result<void> check_job(const std::optional<std::string>& job, const std::string& how) {
  if (!job || !job->empty()) return ok();
  return usage_error(fmt::format("\"\" is no job: is a variable unset? {}", how));
}

void declare_store(CLI::App& app, CommandLine& line) {
  StoreCommand& options = line.emplace<StoreCommand>();
  add_flag(app, "host", "ADDR", "listen at this address [all]", into_text(options.at.host));
  add_flag(app, "port", "N", "listen at this port, 0: the kernel's choice [29500]",
           [&port = options.at.port](const std::string& text) {
             int number = 0;
             Result<void> read = into(number, 0, 65535)(text);
             if (read) port = Port(static_cast<std::uint16_t>(number));
             return read;
           });
  add_flag(app, "fd", "N", "serve on this inherited listening socket", into(options.inherited_fd, 0, 65535));
}

void declare_ps(CLI::App& app, CommandLine& line) {
  PsCommand& options = line.emplace<PsCommand>();
  CLI::Option* const json = app.add_flag("--json", options.as_json, "as a JSON array");
  app.add_flag("--watch", options.keeps_watching,
               "a page of all ranks on all nodes every two seconds, until the last job is over")
      ->excludes(json);
}

void declare_doctor(CLI::App& app, CommandLine& line) {
  DoctorCommand& options = line.emplace<DoctorCommand>();
  add_flag(app, "nnodes", "N", "examine so many hosts together; ddprun doctor runs on each [this one alone]",
           into(options.hosts, 2, kMostDoctorHosts));
  add_flag(app, "rdzv-endpoint", "HOST:PORT",
           "where they meet: one of them, as for a job [Slurm's first node]",
           [&endpoint = options.endpoint](const std::string& text) {
             return keep(endpoint, parse_endpoint(text, LoneWord::kHost));
           });
  add_flag(app, "node-rank", "K", "this host's place; they meet at that of 0 [the one that has HOST]",
           into(options.node_rank, 0, kMostDoctorHosts - 1));
  add_flag(
      app, "timeout", "TIME", "wait so long for all of them [1m]",
      [&timeout = options.timeout](const std::string& text) -> Result<void> {
        const Result<std::chrono::milliseconds> wanted = parse_duration(text);
        if (!wanted) return wanted.error();
        constexpr auto kLongest = std::chrono::hours(24);
        if (wanted->count() <= 0 || *wanted > kLongest)
          return usage_error(fmt::format("expected more than nothing and at most 24h, got \"{}\"", text));
        timeout = *wanted;
        return ok();
      });
  add_flag(app, "rdzv-secret-file", "FILE", "a secret that only these hosts can read",
           into_file(options.secret.file));
  app.add_flag("--json", options.as_json, "as a JSON object; of this host alone");
}

Result<void> check_doctor(CommandLine& line, const CLI::App& app, const std::string& how) {
  const auto& options = std::get<DoctorCommand>(line);
  const bool is_together = app.count("--rdzv-endpoint") + app.count("--node-rank") + app.count("--timeout") +
                               app.count("--rdzv-secret-file") >
                           0;
  if (options.hosts == 1) {
    if (is_together) return usage_error(fmt::format("of how many hosts? {}", how));
    return ok();
  }
  if (options.as_json)
    return usage_error(
        "--json is of one host: run ddprun doctor --json on each, and --nnodes for what lies between them");
  if (options.endpoint && options.endpoint->host.empty())
    return usage_error(
        fmt::format("--rdzv-endpoint \"{}\": the host is missing; {}", to_string(*options.endpoint), how));
  if (options.node_rank.value_or(0) < options.hosts) return ok();
  return usage_error(fmt::format("--node-rank {}: {} hosts have 0 to {}", *options.node_rank, options.hosts,
                                 options.hosts - 1));
}

void declare_why(CLI::App& app, CommandLine& line) {
  WhyCommand& options = line.emplace<WhyCommand>();
  add_job(app, options.job);
  app.add_flag("--json", options.as_json, "as a JSON object");
}

Result<void> check_why(CommandLine& line, const CLI::App&, const std::string& how) {
  return check_job(std::get<WhyCommand>(line).job, how);
}

void declare_coordinator(CLI::App& app, CommandLine& line) {
  CoordinatorCommand& options = line.emplace<CoordinatorCommand>();
  add_flag(app, "bind", "[HOST:]PORT", "listen there, port 0: the kernel's choice [29400 of every address]",
           into_place(options.at.host, options.at.port));
  add_flag(app, "nnodes", "N|MIN:MAX", "number of nodes",
           [&spec = options.spec](const std::string& text) { return set_nodes(spec, text); });
  add_flag(app, "rdzv-id", "ID", "name of the job [none]", into_text(options.spec.run_id));
  add_flag(app, "max-restarts", "N", "restart the job up to N times [0]",
           into(options.spec.max_restarts, 0, kMost));
  add_flag(app, "max-restarts-window", "TIME", "forget restarts that are older",
           [&window = options.spec.max_restarts_window](const std::string& text) {
             return keep(window, parse_duration(text));
           });
  add_flag(app, "rdzv-conf", "K=V,...", "time-outs of the rendezvous",
           [&timing = options.timing](const std::string& text) -> Result<void> {
             const Result<membership::RdzvConf> conf = parse_rdzv_conf(text);
             if (!conf) return conf.error();
             timing = conf->timing;
             return ok();
           });
  add_flag(app, "rdzv-secret-file", "FILE", "a secret that only the job's nodes can read",
           into_file(options.secret.file));
}

Result<void> check_coordinator(CommandLine& line, const CLI::App&, const std::string&) {
  if (std::get<CoordinatorCommand>(line).spec.max_nodes > 1) return ok();
  return usage_error(
      "a job of one node serves its own store and joins no coordinator; give --nnodes N or MIN:MAX, for two "
      "nodes or more");
}

void declare_drain(CLI::App& app, CommandLine& line) {
  DrainCommand& options = line.emplace<DrainCommand>();
  add_job(app, options.job);
  add_flag(app, "rdzv-endpoint", "HOST:PORT", "where the coordinator is",
           [&options](const std::string& text) {
             Result<void> read = into_place(options.host, options.port)(text);
             if (read && options.host.empty()) options.host = "127.0.0.1";
             return read;
           });
  add_flag(app, "rdzv-id", "ID", "name of the job [none]", into_text(options.run_id));
  add_flag(app, "node-rank", "R", "let this node go [all]", into(options.node, 0, kMost));
  add_flag(app, "rdzv-secret-file", "FILE", "the secret of the job's nodes", into_file(options.secret.file));
}

Result<void> check_drain(CommandLine& line, const CLI::App& app, const std::string& how) {
  auto& options = std::get<DrainCommand>(line);
  if (!options.host.empty()) {
    if (!options.job) return ok();
    return usage_error(fmt::format("\"{}\" and an endpoint are two jobs; {}", *options.job, how));
  }
  if (app.count("--rdzv-id") + app.count("--node-rank") + app.count("--rdzv-secret-file") > 0)
    return usage_error(fmt::format("where is the coordinator? {}", how));
  const Result<void> fits = check_job(options.job, how);
  options.job = options.job.value_or("");
  return fits;
}

void declare_completions(CLI::App& app, CommandLine& line) {
  app.add_option("shell", line.emplace<CompletionsCommand>().shell, "bash, zsh, tcsh or fish")
      ->type_name("SHELL");
}

Result<void> check_completions(CommandLine& line, const CLI::App&, const std::string&) {
  std::string& shell = std::get<CompletionsCommand>(line).shell;
  if (shell.empty()) return usage_error("name one shell: bash, zsh, tcsh or fish");
  return keep(shell, parse_choice(shell, completion_shells()));
}

const std::vector<CommandEntry>& commands() {
  static const std::vector<CommandEntry> kCommands{
      {"store",
       {{"store [--host ADDR] [--port N | --fd N]", "serve a TCPStore alone"}},
       "./store for a program",
       declare_store,
       nullptr},
      {"ps",
       {{"ps [--json | --watch]", "list your jobs on this host, or watch them"}},
       "ddprun -- ps … for the program ps",
       declare_ps,
       nullptr},
      {"doctor",
       {{"doctor [--json]", "say what is wrong with this machine, and how to mend it"},
        {"doctor --nnodes N --rdzv-endpoint HOST:PORT [--node-rank K]",
         "the same of several, run on each: who reaches whom, how fast, what differs"}},
       "./doctor for a program",
       declare_doctor,
       check_doctor},
      {"why",
       {{"why [JOB|PID] [--json]", "say why a job does not get on: who is late, and in which line"}},
       "",
       declare_why,
       check_why},
      {"coordinator",
       {{"coordinator --bind [HOST:]PORT --nnodes N --rdzv-id ID",
         "let nodes meet on a machine that is none of them"}},
       "",
       declare_coordinator,
       check_coordinator},
      {"drain",
       {{"drain [JOB|PID]", "let a job on this host checkpoint and end with 75"},
        {"drain --rdzv-endpoint HOST:PORT --rdzv-id ID [--node-rank R]",
         "the same for a node, or a job, anywhere"}},
       "",
       declare_drain,
       check_drain},
      {"completions",
       {{"completions bash|zsh|tcsh|fish", "print shell completions"}},
       "",
       declare_completions,
       check_completions},
  };
  return kCommands;
}

const CommandEntry* find_command(std::string_view name) {
  const auto found = std::find_if(commands().begin(), commands().end(),
                                  [&](const CommandEntry& entry) { return entry.name == name; });
  return found == commands().end() ? nullptr : &*found;
}

/// "write ddprun store [--host ADDR] [--port N | --fd N], or ./store for a program"
std::string how_to_write(const CommandEntry& entry) {
  std::vector<std::string> ways;
  for (const CommandUsage& usage : entry.usages) ways.push_back("ddprun " + usage.usage);
  if (!entry.as_program.empty()) ways.push_back(entry.as_program);
  return fmt::format("write {}", fmt::join(ways, ", or "));
}

void declare(const CommandEntry& entry, CLI::App& app, CommandLine& line) {
  app.set_help_flag();  // it would be the first of the flags, and is the least
  entry.declare(app, line);
  app.set_help_flag("-h,--help", "print this");
}

std::vector<CommandFlag> flags_of(const CLI::App& app) {
  std::vector<CommandFlag> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      flags.push_back({name, option->get_expected_min() == 0 ? std::string() : option->get_type_name()});
  }
  return flags;
}

/// What is written behind a command.
struct Written {
  bool asks_for_help = false;
  std::vector<std::string> flags;  ///< each by its whole name, with its value behind it
  std::vector<std::string> words;
};

/// Reads as everywhere: abbreviations, `--a_b`, `--flag=` with nothing behind it, `--`. CLI11 would give such a flag
/// the next word. Flags may stand behind words.
Result<Written> split_written(const CLI::App& app, const std::string& command,
                              std::span<const std::string> args) {
  const std::vector<CommandFlag> flags = flags_of(app);
  std::vector<FlagSyntax> table;
  for (const CommandFlag& flag : flags)
    table.push_back({flag.name, flag.name == "help" ? 'h' : '\0', flag.metavar});
  Written written;
  std::vector<std::string> left(args.begin(), args.end());
  while (!left.empty()) {
    const Result<ParsedArgs> parsed = split_args(table, left, fmt::format("ddprun {} --help", command));
    if (!parsed) return parsed.error();
    for (const FlagUse& use : parsed->flags) {
      if (flags[use.flag].name == "help") written.asks_for_help = true;
      written.flags.push_back("--" + flags[use.flag].name);
      written.flags.insert(written.flags.end(), use.values.begin(), use.values.end());
    }
    left.clear();
    const std::size_t words =
        parsed->ended_by_dashes ? parsed->rest.size() : std::min<std::size_t>(1, parsed->rest.size());
    const auto behind = parsed->rest.begin() + static_cast<std::ptrdiff_t>(words);
    written.words.insert(written.words.end(), parsed->rest.begin(), behind);
    left.assign(behind, parsed->rest.end());
  }
  return written;
}

std::vector<const CLI::Option*> words_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

Result<CommandLine> parse_own(const CommandEntry& entry, std::span<const std::string> args) {
  CommandLine line;
  CLI::App app;
  app.allow_extras();  // it counts "--" among them
  declare(entry, app, line);
  const Result<Written> written = split_written(app, entry.name, args);
  if (!written) return written.error();
  if (written->asks_for_help) return CommandLine(HelpCommand{entry.name});
  if (const std::size_t most = words_of(app).size(); written->words.size() > most)
    return usage_error(fmt::format("unexpected \"{}\"; {}", written->words[most], how_to_write(entry)));
  std::vector<std::string> all = written->flags;
  all.emplace_back("--");
  all.insert(all.end(), written->words.begin(), written->words.end());
  std::reverse(all.begin(), all.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(all));
  } catch (const CLI::ParseError& problem) {
    return usage_error(problem.what());
  }
  if (entry.check != nullptr) {
    if (const Result<void> fits = entry.check(line, app, how_to_write(entry)); !fits) return fits.error();
  }
  return line;
}

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands()) names.push_back(entry.name);
  for (const config::JobCommand& command : config::job_commands()) names.emplace_back(command.name);
  return names;
}

bool is_command(const std::string& word) {
  return find_command(word) != nullptr || config::find_job_command(word) != nullptr;
}

std::vector<CommandUsage> command_usages(std::string_view command) {
  std::vector<CommandUsage> usages;
  for (const CommandEntry& entry : commands()) {
    if (command.empty() || command == entry.name)
      usages.insert(usages.end(), entry.usages.begin(), entry.usages.end());
  }
  return usages;
}

std::vector<CommandUsage> command_arguments(std::string_view command) {
  const CommandEntry* const found = find_command(command);
  if (found == nullptr) return {};
  CLI::App app;
  CommandLine unused;
  declare(*found, app, unused);
  std::vector<CommandUsage> arguments;
  for (const CLI::Option* word : words_of(app))
    arguments.push_back({word->get_type_name(), word->get_description()});
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;
    const bool is_switch = option->get_expected_min() == 0;
    arguments.push_back(
        {option->get_name() + (is_switch ? "" : " " + option->get_type_name()), option->get_description()});
  }
  return arguments;
}

std::vector<CommandFlag> command_flags(const std::string& command) {
  if (const CommandEntry* const found = find_command(command)) {
    CLI::App app;
    CommandLine unused;
    declare(*found, app, unused);
    return flags_of(app);
  }
  std::vector<CommandFlag> flags;
  if (const config::JobCommand* const found = config::find_job_command(command)) {
    for (const config::JobCommandFlag& flag : found->flags)
      flags.push_back({std::string(flag.name), std::string(flag.metavar)});
  }
  return flags;
}

bool takes_file(std::string_view command) {
  const config::JobCommand* const found = config::find_job_command(command);
  return found != nullptr && found->words.starts_with("JOB");
}

Result<CommandLine> parse_command(const std::string& command, std::span<const std::string> args) {
  if (const CommandEntry* const found = find_command(command)) {
    Result<CommandLine> line = parse_own(*found, args);
    return line ? line : Result<CommandLine>(line.error().with(command));
  }
  JobCommand line{{command}};
  line.words.insert(line.words.end(), args.begin(), args.end());
  return CommandLine(std::move(line));
}

}  // namespace ddprun::launcher
