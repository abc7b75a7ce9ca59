#include "launcher/cli/flags.h"

#include "launcher/cli/signal_names.h"
#include "launcher/cli/values.h"
#include "launcher/text/python_numbers.h"
#include "launcher/text/text.h"
#include "rendezvous/config/override.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <limits>

namespace ddprun::launcher {
namespace {

using Values = std::span<const std::string>;
using Setter = Result<void> (*)(Options&, Values);

/// Stores a parsed value, or hands its error on.
template <class Member, class Parsed>
Result<void> store(Member& member, Result<Parsed> parsed) {
  if (!parsed) return parsed.error();
  member = std::move(*parsed);
  return ok();
}

template <std::string Options::*member>
Result<void> set_text(Options& options, Values values) {
  options.*member = values[0];
  return ok();
}

template <std::string Options::*member>
Result<void> set_file(Options& options, Values values) {
  return store(options.*member, parse_file_name(values[0]));
}

template <bool Options::*member>
Result<void> set_switch(Options& options, Values values) {
  return store(options.*member, parse_switch(values[0]));
}

template <StreamMap Options::*member>
Result<void> set_streams(Options& options, Values values) {
  return store(options.*member, parse_stream_map(values[0]));
}

template <auto member>
Result<void> set_duration(Options& options, Values values) {
  return store(options.*member, parse_duration(values[0]));
}

/// A duration that would make no sense as 0.
template <auto member>
Result<void> set_time_limit(Options& options, Values values) {
  const Result<std::chrono::milliseconds> limit = parse_duration(values[0]);
  if (!limit) return limit.error();
  if (limit->count() == 0) {
    return Error(ErrorCode::kUsage, fmt::format("expected a time above 0, got \"{}\"", values[0]));
  }
  options.*member = *limit;
  return ok();
}

template <auto member, int lowest, int highest>
Result<void> set_integer(Options& options, Values values) {
  return store(options.*member, parse_integer(values[0], lowest, highest));
}

template <std::vector<std::string> Options::*member>
Result<void> set_words(Options& options, Values values) {
  options.*member = parse_words(values[0]);
  return ok();
}

constexpr int kMax = std::numeric_limits<int>::max();

Result<void> set_worker_count(Options& options, Values values) {
  return store(options.workers, parse_worker_count(values[0]));
}

Result<void> set_nodes(Options& options, Values values) {
  Result<NodeRange> nodes = parse_node_range(values[0]);
  if (!nodes) return nodes.error();
  options.min_nodes = nodes->lowest;
  options.max_nodes = nodes->highest;
  return ok();
}

Result<void> set_rdzv_backend(Options& options, Values values) {
  if (values[0] == "etcd" || values[0] == "etcd-v2") {
    return Error(
        ErrorCode::kUsage,
        fmt::format("\"{}\" is not spoken by ddprun, whose own rendezvous needs no second service; use c10d",
                    values[0]));
  }
  return store(options.rdzv_backend, parse_choice(values[0], {"static", "c10d"}));
}

Result<void> set_master_addr(Options& options, Values values) {
  options.master_addr = without_brackets(values[0]);
  return ok();
}

/// "" is torchrun's default: none.
Result<void> set_metrics(Options& options, Values values) {
  return store(options.metrics, parse_endpoint(values[0], LoneWord::kPort));
}

Result<void> set_rdzv_endpoint(Options& options, Values values) {
  options.rdzv_endpoint.reset();
  if (values[0].empty()) return ok();
  if (values[0].rfind(':') == 0) {
    return Error(ErrorCode::kUsage,
                 fmt::format("the host is missing in \"{}\"; write HOST{}", values[0], values[0]));
  }
  return store(options.rdzv_endpoint, parse_endpoint(values[0], LoneWord::kHost));
}

Result<void> set_rdzv_conf(Options& options, Values values) {
  return store(options.rdzv_conf, parse_rdzv_conf(values[0]));
}

Result<void> set_exit_codes(Options& options, Values values) {
  return store(options.no_restart_exit_codes, parse_exit_codes(values[0]));
}

Result<void> set_signals(Options& options, Values values) {
  std::vector<int> signals;
  for (const std::string& word : parse_words(values[0])) {
    const std::string_view name = trim_blanks(word);
    if (name.empty()) continue;
    const Result<int> number = parse_signal(name);
    if (!number) return number.error();
    signals.push_back(*number);
  }
  options.signals_to_handle = std::move(signals);
  return ok();
}

Result<void> set_local_ranks(Options& options, Values values) {
  return store(options.local_ranks_filter, parse_rank_list(values[0]));
}

Result<void> set_numa_binding(Options& options, Values values) {
  return store(options.numa_binding,
               parse_choice(values[0], {"node", "socket", "exclusive", "core-complex"}));
}

Result<void> set_backend(Options& options, Values values) {
  return store(options.backend, parse_choice(values[0], {"auto", "nccl", "gloo", "shm"}));
}

Result<void> add_override(Options& options, Values values) {
  if (const auto change = config::parse_override(values[0]); !change)
    return Error(ErrorCode::kUsage, change.error().message());
  options.config_overrides.push_back(values[0]);
  return ok();
}

Result<void> set_debug_rank(Options& options, Values values) {
  Result<int> rank = parse_integer(values[0], 0, kMax);
  if (!rank) return rank.error();
  options.debug_rank = *rank;
  options.debug_command.clear();
  for (std::string_view rest = values[1]; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    if (space > 0) options.debug_command.emplace_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  if (options.debug_command.empty()) {
    return Error(ErrorCode::kUsage, "expected a debugger such as gdb, pdb or \"valgrind -q\", got \"\"");
  }
  if (options.debug_command == std::vector<std::string>{"gdb"}) options.debug_command.emplace_back("--args");
  if (options.debug_command == std::vector<std::string>{"lldb"}) options.debug_command.emplace_back("--");
  return ok();
}

/// Nothing is polled, so whatever torchrun's float() takes will do, inf and nan too.
Result<void> check_monitor_interval(Options&, Values values) {
  if (python_float(values[0])) return ok();
  const Result<std::chrono::milliseconds> interval = parse_duration(values[0]);
  return interval ? ok() : Result<void>(interval.error());
}

Result<void> check_start_method(Options&, Values values) {
  Result<std::string> method = parse_choice(values[0], {"spawn", "fork", "forkserver"});
  if (!method) return method.error();
  return ok();
}

Result<void> refuse_plug_in(std::string_view accepted, Values values, std::string_view alternative) {
  if (values[0] == accepted) return ok();
  return Error(ErrorCode::kUsage, fmt::format("\"{}\" is a Python plug-in, which ddprun cannot load; {}",
                                              values[0], alternative));
}

Result<void> check_event_log_handler(Options&, Values values) {
  return refuse_plug_in("null", values, "use --events FILE, which writes the job's events as JSON lines");
}

Result<void> check_logs_specs(Options&, Values values) {
  return refuse_plug_in("default", values, "use --log-dir, --redirects and --tee");
}

/// runpy in the worker's interpreter and `python3 -u script` start the same program here.
Result<void> set_run_path(Options& options, Values values) {
  Result<bool> on = parse_switch(values[0]);
  if (!on) return on.error();
  options.run_path = *on;
  return ok();
}

constexpr bool kTorchrun = true;

constexpr std::array kFlags{
    // How many workers, and on what.
    RunFlag{{"nproc-per-node", '\0', "N", kTorchrun},
            FlagGroup::kWorkers,
            "workers on this node: a number, auto (GPUs, or else CPUs), cpu or gpu [1]",
            "auto cpu gpu",
            set_worker_count},
    RunFlag{{"virtual-local-rank", '\0', "", kTorchrun},
            FlagGroup::kWorkers,
            "LOCAL_RANK=0 for every worker, and CUDA_VISIBLE_DEVICES only its own GPU",
            "",
            set_switch<&Options::virtual_local_rank>},
    RunFlag{{"numa-binding", '\0', "MODE", kTorchrun},
            FlagGroup::kWorkers,
            "bind workers to CPUs: node, socket, exclusive or core-complex [no binding]",
            "node socket exclusive core-complex",
            set_numa_binding},
    RunFlag{{"backend", '\0', "NAME"},
            FlagGroup::kWorkers,
            "collectives of jobs and programs that use ddprun: auto, nccl, gloo, shm",
            "auto nccl gloo shm",
            set_backend},

    // Where the workers meet.
    RunFlag{{"standalone", '\0', "", kTorchrun},
            FlagGroup::kNodes,
            "one node, a free port, a random job id",
            "",
            set_switch<&Options::standalone>},
    RunFlag{
        {"nnodes", '\0', "N|MIN:MAX", kTorchrun}, FlagGroup::kNodes, "number of nodes [1]", "", set_nodes},
    RunFlag{{"node-rank", '\0', "R", kTorchrun},
            FlagGroup::kNodes,
            "which of the nodes this is [0]",
            "",
            set_integer<&Options::node_rank, 0, kMax>},
    RunFlag{{"master-addr", '\0', "ADDR", kTorchrun},
            FlagGroup::kNodes,
            "where node 0 is [127.0.0.1]",
            "",
            set_master_addr},
    RunFlag{{"master-port", '\0', "PORT", kTorchrun},
            FlagGroup::kNodes,
            "its port [one node: a free one; several: 29500]",
            "",
            set_integer<&Options::master_port, 0, 65535>},
    RunFlag{{"rdzv-backend", '\0', "NAME", kTorchrun},
            FlagGroup::kNodes,
            "static or c10d [static]",
            "static c10d",
            set_rdzv_backend},
    RunFlag{{"rdzv-endpoint", '\0', "HOST:PORT", kTorchrun},
            FlagGroup::kNodes,
            "where the nodes meet [--master-addr and --master-port]",
            "",
            set_rdzv_endpoint,
            FlagReading::kLastUnlessStandalone},
    RunFlag{{"rdzv-id", '\0', "ID", kTorchrun},
            FlagGroup::kNodes,
            "name of the job [none]",
            "",
            set_text<&Options::rdzv_id>},
    RunFlag{{"rdzv-conf", '\0', "K=V,...", kTorchrun},
            FlagGroup::kNodes,
            "time-outs of the rendezvous",
            "",
            set_rdzv_conf,
            FlagReading::kLast},
    RunFlag{{"rdzv-secret-file", '\0', "FILE"},
            FlagGroup::kNodes,
            "a secret that only the job's nodes can read",
            "<file>",
            set_file<&Options::rdzv_secret_file>},
    RunFlag{{"local-addr", '\0', "ADDR", kTorchrun},
            FlagGroup::kNodes,
            "address of this node that the others use",
            "",
            set_text<&Options::local_addr>},
    RunFlag{{"role", '\0', "NAME", kTorchrun},
            FlagGroup::kNodes,
            "role of the workers, shown by --tee [default]",
            "",
            set_text<&Options::role>},

    // What is run.
    RunFlag{{"module", 'm', "", kTorchrun},
            FlagGroup::kProgram,
            "the program is a Python module, as in python3 -m",
            "",
            set_switch<&Options::module>},
    RunFlag{{"no-python", '\0', "", kTorchrun},
            FlagGroup::kProgram,
            "run it as it is, whatever its name ends in",
            "",
            set_switch<&Options::no_python>},
    RunFlag{{"run-path", '\0', "", kTorchrun},
            FlagGroup::kProgram,
            "run it with Python, whatever its name ends in",
            "",
            set_run_path},
    RunFlag{{"set", '\0', "/PTR=VALUE"},
            FlagGroup::kProgram,
            "change a value of the .json job, as in --set /train/epochs=3; may be repeated",
            "",
            add_override},
    RunFlag{{"pass-local-rank", '\0', ""},
            FlagGroup::kProgram,
            "give the program --local-rank=N, as torch.distributed.launch did",
            "",
            set_switch<&Options::pass_local_rank>},

    // When something goes wrong.
    RunFlag{{"max-restarts", '\0', "N", kTorchrun},
            FlagGroup::kFailures,
            "restart up to N times [0]; after lives under 3 s wait 0.5 s, doubling to 30 s",
            "",
            set_integer<&Options::max_restarts, 0, kMax>},
    RunFlag{{"max-restarts-window", '\0', "TIME"},
            FlagGroup::kFailures,
            "forget restarts that are older, so that N bounds the restarts within TIME",
            "",
            set_time_limit<&Options::max_restarts_window>},
    RunFlag{{"no-restart-exit-codes", '\0', "C,..."},
            FlagGroup::kFailures,
            "exit codes after which a restart would not help [78,93]",
            "",
            set_exit_codes},
    RunFlag{{"shutdown-timeout", '\0', "TIME", kTorchrun},
            FlagGroup::kFailures,
            "time to end after SIGTERM before SIGKILL [30s]",
            "",
            set_duration<&Options::shutdown_timeout>},
    RunFlag{{"blame-window", '\0', "TIME"},
            FlagGroup::kFailures,
            "wait for the cause when the first failure is a mere symptom [3s]",
            "",
            set_duration<&Options::blame_window>},
    RunFlag{{"job-timeout", '\0', "TIME"},
            FlagGroup::kFailures,
            "stop the job after this time and exit with 75",
            "",
            set_time_limit<&Options::job_timeout>},
    RunFlag{{"hang-report", '\0', "TIME"},
            FlagGroup::kFailures,
            "say why, once, when nothing gets on for this time, 0: never [60s]",
            "",
            set_duration<&Options::hang_report>},
    RunFlag{{"hang-timeout", '\0', "TIME"},
            FlagGroup::kFailures,
            "say why and end the workers when nothing gets on for this time [job file, or never]",
            "",
            set_duration<&Options::hang_timeout>},
    RunFlag{{"signals-to-handle", '\0', "S,...", kTorchrun},
            FlagGroup::kFailures,
            "signals that stop the job in order [SIGTERM,SIGINT,SIGHUP,SIGQUIT]",
            "",
            set_signals},
    RunFlag{{"keep-detached", '\0', ""},
            FlagGroup::kFailures,
            "let what workers left running go on after success, if it prints elsewhere",
            "",
            set_switch<&Options::keep_detached>},

    // What one sees of it.
    RunFlag{{"log-dir", '\0', "DIR", kTorchrun},
            FlagGroup::kOutput,
            "keep logs in DIR, as <id>_<random>/attempt_<n>/<local_rank>/",
            "<dir>",
            set_text<&Options::log_dir>},
    RunFlag{{"redirects", 'r', "STREAMS", kTorchrun},
            FlagGroup::kOutput,
            "to log files: 0 none, 1 stdout, 2 stderr, 3 both, or by local rank 0:1,1:3 [0]",
            "0 1 2 3",
            set_streams<&Options::redirects>},
    RunFlag{{"tee", 't', "STREAMS", kTorchrun},
            FlagGroup::kOutput,
            "to log files and the console, like -r [0]",
            "0 1 2 3",
            set_streams<&Options::tee>},
    RunFlag{{"local-ranks-filter", '\0', "R,...", kTorchrun},
            FlagGroup::kOutput,
            "only these local ranks reach the console [all]",
            "",
            set_local_ranks},
    RunFlag{{"duplicate-stdout-filters", '\0', "W,...", kTorchrun},
            FlagGroup::kOutput,
            "copy stdout lines with one of these words to filtered_stdout.log",
            "",
            set_words<&Options::duplicate_stdout_filters>},
    RunFlag{{"duplicate-stderr-filters", '\0', "W,...", kTorchrun},
            FlagGroup::kOutput,
            "copy stderr lines with one of these words to filtered_stderr.log",
            "",
            set_words<&Options::duplicate_stderr_filters>},
    RunFlag{{"log-line-prefix-template", '\0', "TEXT", kTorchrun},
            FlagGroup::kOutput,
            "before each line of -t: ${rank} ${local_rank} ${role_name} ${hostname}",
            "",
            set_text<&Options::log_line_prefix_template>},
    RunFlag{{"prefix", '\0', ""},
            FlagGroup::kOutput,
            "put [rank@host] before each console line",
            "",
            set_switch<&Options::prefix>},
    RunFlag{{"rank0-only", '\0', ""},
            FlagGroup::kOutput,
            "only rank 0 reaches a console",
            "",
            set_switch<&Options::rank0_only>},
    RunFlag{{"log-funnel", '\0', ""},
            FlagGroup::kOutput,
            "show the lines of all nodes, after [rank@host], where the coordinator runs",
            "",
            set_switch<&Options::log_funnel>},
    RunFlag{{"fold", '\0', ""},
            FlagGroup::kOutput,
            "show a line that all ranks print once, as [0-7] line",
            "",
            set_switch<&Options::fold_lines>},
    RunFlag{{"stdin", '\0', "R"},
            FlagGroup::kOutput,
            "local rank that gets our standard input [a lone worker; of several, none]",
            "",
            [](Options& options, Values values) {
              return store(options.stdin_local_rank, parse_integer(values[0], 0, kMax));
            }},
    RunFlag{{"debug-rank", '\0', "R COMMAND"},
            FlagGroup::kOutput,
            "start rank R under a debugger: gdb, lldb, pdb or any command",
            "",
            set_debug_rank},
    RunFlag{{"events", '\0', "FILE"},
            FlagGroup::kOutput,
            "write what happens as JSON lines",
            "<file>",
            set_file<&Options::events_file>},
    RunFlag{{"metrics", '\0', "[HOST:]PORT"},
            FlagGroup::kOutput,
            "serve numbers of the ranks for Prometheus, at /metrics [nowhere]",
            "",
            set_metrics},

    RunFlag{{"dry-run", '\0', ""},
            FlagGroup::kSee,
            "print what would be started, and start nothing",
            "",
            set_switch<&Options::dry_run>},
    RunFlag{{"verbose", 'v', ""},
            FlagGroup::kSee,
            "say what the launcher does",
            "",
            set_switch<&Options::verbose>},
    RunFlag{{"help", 'h', "", kTorchrun}, FlagGroup::kSee, "print this", "", nullptr},
    RunFlag{{"version", '\0', ""}, FlagGroup::kSee, "print the version", "", nullptr},
    RunFlag{{"print-completion", '\0', "SHELL", kTorchrun},
            FlagGroup::kSee,
            "print completions for bash, zsh or tcsh",
            "bash zsh tcsh",
            nullptr},

    // Harmless here.
    RunFlag{{"monitor-interval", '\0', "TIME", kTorchrun},
            FlagGroup::kNoEffect,
            "exits are noticed at once; nothing is polled",
            "",
            check_monitor_interval},
    RunFlag{{"start-method", '\0', "NAME", kTorchrun},
            FlagGroup::kNoEffect,
            "spawn, fork or forkserver",
            "spawn fork forkserver",
            check_start_method},
    RunFlag{{"event-log-handler", '\0', "NAME", kTorchrun},
            FlagGroup::kNoEffect,
            "only null; see --events",
            "null",
            check_event_log_handler},
    RunFlag{{"logs-specs", '\0', "NAME", kTorchrun},
            FlagGroup::kNoEffect,
            "only default; see --log-dir",
            "default",
            check_logs_specs},
};

bool is_env_backed(const RunFlag& flag) {
  if (flag.syntax.name == "hang-report" || flag.syntax.name == "hang-timeout") return true;
  // torchrun reads every flag of its own from the environment, except these.
  return flag.syntax.is_torchrun && flag.set != nullptr && flag.syntax.name != "logs-specs" &&
         flag.syntax.name != "numa-binding";
}

}  // namespace

std::string_view to_string(FlagGroup group) {
  switch (group) {
    case FlagGroup::kWorkers:
      return "Workers";
    case FlagGroup::kNodes:
      return "Nodes";
    case FlagGroup::kProgram:
      return "Program";
    case FlagGroup::kFailures:
      return "Failures";
    case FlagGroup::kOutput:
      return "Output and input";
    case FlagGroup::kSee:
      return "Help";
    case FlagGroup::kNoEffect:
      return "Accepted for torchrun's sake, without effect";
  }
  return "";
}

std::span<const RunFlag> run_flags() { return kFlags; }

std::string environment_variable(const RunFlag& flag) {
  if (!is_env_backed(flag)) return {};
  std::string name = "PET_";
  for (const char c : flag.syntax.name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace ddprun::launcher
