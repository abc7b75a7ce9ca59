#include "launcher/cli/flags.h"

#include "launcher/cli/flag_setters.h"
#include "launcher/cli/signal_names.h"
#include "launcher/cli/values.h"

#include <array>
#include <cctype>
#include <limits>

namespace ddprun::launcher {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();

constexpr bool kTorchrun = true;

bool is_env_backed(const RunFlag& flag) {
  if (flag.syntax.name == "hang-report" || flag.syntax.name == "hang-timeout") return true;
  // torchrun reads every flag of its own from the environment, except these.
  return flag.syntax.is_torchrun && flag.set != nullptr && flag.syntax.name != "logs-specs" &&
         flag.syntax.name != "numa-binding";
}

}  // namespace

std::string_view to_string(FlagGroup group) {
  using enum FlagGroup;
  switch (group) {
    case kWorkers:
      return "Workers";
    case kNodes:
      return "Nodes";
    case kProgram:
      return "Program";
    case kFailures:
      return "Failures";
    case kOutput:
      return "Output and input";
    case kSee:
      return "Help";
    case kNoEffect:
      return "Accepted for torchrun's sake, without effect";
  }
  return "";
}

std::span<const RunFlag> run_flags() {
  using enum FlagGroup;
  static constexpr std::array kFlags{
      // How many workers, and on what.
      RunFlag{{"nproc-per-node", '\0', "N", kTorchrun},
              kWorkers,
              "workers on this node: a number, auto (GPUs, or else CPUs), cpu or gpu [1]",
              set<&Options::workers, parse_worker_count>,
              "auto cpu gpu"},
      RunFlag{{"virtual-local-rank", '\0', "", kTorchrun},
              kWorkers,
              "LOCAL_RANK=0 for every worker, and CUDA_VISIBLE_DEVICES only its own GPU",
              set<&Options::virtual_local_rank, parse_switch>},
      RunFlag{{"numa-binding", '\0', "MODE", kTorchrun},
              kWorkers,
              "bind workers to CPUs: node, socket, exclusive or core-complex [no binding]",
              set<&Options::numa_binding, parse_numa_binding>,
              kNumaBindings},
      RunFlag{{"backend", '\0', "NAME"},
              kWorkers,
              "collectives of jobs and programs that use ddprun: auto, nccl, gloo, shm",
              set<&Options::backend, parse_backend>,
              kBackends},

      // Where the workers meet.
      RunFlag{{"standalone", '\0', "", kTorchrun},
              kNodes,
              "one node, a free port, a random job id",
              set<&Options::standalone, parse_switch>},
      RunFlag{{"nnodes", '\0', "N|MIN:MAX", kTorchrun},
              kNodes,
              "number of nodes [1]",
              [](Options& options, FlagValues values) { return set_nodes(options, values[0]); }},
      RunFlag{{"node-rank", '\0', "R", kTorchrun},
              kNodes,
              "which of the nodes this is [0]",
              set_integer<&Options::node_rank, 0, kMaxInt>},
      RunFlag{{"master-addr", '\0', "ADDR", kTorchrun},
              kNodes,
              "where node 0 is [127.0.0.1]",
              set<&Options::master_addr, without_brackets>},
      RunFlag{{"master-port", '\0', "PORT", kTorchrun},
              kNodes,
              "its port [one node: a free one; several: 29500]",
              set_integer<&Options::master_port, 0, 65535>},
      RunFlag{{"rdzv-backend", '\0', "NAME", kTorchrun},
              kNodes,
              "static or c10d [static]",
              set<&Options::rdzv_backend, parse_rdzv_backend>,
              kRdzvBackends},
      RunFlag{{"rdzv-endpoint", '\0', "HOST:PORT", kTorchrun},
              kNodes,
              "where the nodes meet [--master-addr and --master-port]",
              set_rdzv_endpoint,
              "",
              FlagReading::kLastUnlessStandalone},
      RunFlag{
          {"rdzv-id", '\0', "ID", kTorchrun}, kNodes, "name of the job [none]", set_text<&Options::run_id>},
      RunFlag{{"rdzv-conf", '\0', "K=V,...", kTorchrun},
              kNodes,
              "time-outs of the rendezvous",
              set<&Options::rdzv_conf, parse_rdzv_conf>,
              "",
              FlagReading::kLast},
      RunFlag{{"rdzv-secret-file", '\0', "FILE"},
              kNodes,
              "a secret that only the job's nodes can read",
              set_secret_file,
              "<file>"},
      RunFlag{{"local-addr", '\0', "ADDR", kTorchrun},
              kNodes,
              "address of this node that the others use",
              set_text<&Options::local_addr>},
      RunFlag{{"role", '\0', "NAME", kTorchrun},
              kNodes,
              "role of the workers, shown by --tee [default]",
              set_text<&Options::role>},

      // What is run.
      RunFlag{{"module", 'm', "", kTorchrun},
              kProgram,
              "the program is a Python module, as in python3 -m",
              set<&Options::module, parse_switch>},
      RunFlag{{"no-python", '\0', "", kTorchrun},
              kProgram,
              "run it as it is, whatever its name ends in",
              set<&Options::no_python, parse_switch>},
      RunFlag{{"run-path", '\0', "", kTorchrun},
              kProgram,
              "run it with Python, whatever its name ends in",
              set<&Options::run_path, parse_switch>},
      RunFlag{{"set", '\0', "/PTR=VALUE"},
              kProgram,
              "change a value of the .json job, as in --set /train/epochs=3; may be repeated",
              add_override},
      RunFlag{{"pass-local-rank", '\0', ""},
              kProgram,
              "give the program --local-rank=N, as torch.distributed.launch did",
              set<&Options::pass_local_rank, parse_switch>},

      // When something goes wrong.
      RunFlag{{"max-restarts", '\0', "N", kTorchrun},
              kFailures,
              "restart up to N times [0]; after lives under 3 s wait 0.5 s, doubling to 30 s",
              set_integer<&Options::max_restarts, 0, kMaxInt>},
      RunFlag{{"max-restarts-window", '\0', "TIME"},
              kFailures,
              "forget restarts that are older, so that N bounds the restarts within TIME",
              set<&Options::max_restarts_window, parse_time_limit>},
      RunFlag{{"no-restart-exit-codes", '\0', "C,..."},
              kFailures,
              "exit codes after which a restart would not help [78,93]",
              set<&Options::no_restart_exit_codes, parse_exit_codes>},
      RunFlag{{"shutdown-timeout", '\0', "TIME", kTorchrun},
              kFailures,
              "time to end after SIGTERM before SIGKILL [30s]",
              set<&Options::shutdown_timeout, parse_duration>},
      RunFlag{{"blame-window", '\0', "TIME"},
              kFailures,
              "wait for the cause when the first failure is a mere symptom [3s]",
              set<&Options::blame_window, parse_duration>},
      RunFlag{{"job-timeout", '\0', "TIME"},
              kFailures,
              "stop the job after this time and exit with 75",
              set<&Options::job_timeout, parse_time_limit>},
      RunFlag{{"hang-report", '\0', "TIME"},
              kFailures,
              "say why, once, when nothing gets on for this time, 0: never [60s]",
              set<&Options::hang_report, parse_duration>},
      RunFlag{{"hang-timeout", '\0', "TIME"},
              kFailures,
              "say why and end the workers when nothing gets on for this time [job file, or never]",
              set<&Options::hang_timeout, parse_duration>},
      RunFlag{{"signals-to-handle", '\0', "S,...", kTorchrun},
              kFailures,
              "signals that stop the job in order [SIGTERM,SIGINT,SIGHUP,SIGQUIT]",
              set<&Options::signals_to_handle, parse_signals>},
      RunFlag{{"keep-detached", '\0', ""},
              kFailures,
              "let what workers left running go on after success, if it prints elsewhere",
              set<&Options::keep_detached, parse_switch>},

      // What one sees of it.
      RunFlag{{"log-dir", '\0', "DIR", kTorchrun},
              kOutput,
              "keep logs in DIR, as <id>_<random>/attempt_<n>/<local_rank>/",
              set_text<&Options::log_dir>,
              "<dir>"},
      RunFlag{{"redirects", 'r', "STREAMS", kTorchrun},
              kOutput,
              "to log files: 0 none, 1 stdout, 2 stderr, 3 both, or by local rank 0:1,1:3 [0]",
              set<&Options::redirects, parse_stream_map>,
              "0 1 2 3"},
      RunFlag{{"tee", 't', "STREAMS", kTorchrun},
              kOutput,
              "to log files and the console, like -r [0]",
              set<&Options::tee, parse_stream_map>,
              "0 1 2 3"},
      RunFlag{{"local-ranks-filter", '\0', "R,...", kTorchrun},
              kOutput,
              "only these local ranks reach the console [all]",
              set<&Options::local_ranks_filter, parse_rank_list>},
      RunFlag{{"duplicate-stdout-filters", '\0', "W,...", kTorchrun},
              kOutput,
              "copy stdout lines with one of these words to filtered_stdout.log",
              set<&Options::duplicate_stdout_filters, parse_words>},
      RunFlag{{"duplicate-stderr-filters", '\0', "W,...", kTorchrun},
              kOutput,
              "copy stderr lines with one of these words to filtered_stderr.log",
              set<&Options::duplicate_stderr_filters, parse_words>},
      RunFlag{{"log-line-prefix-template", '\0', "TEXT", kTorchrun},
              kOutput,
              "before each line of -t: ${rank} ${local_rank} ${role_name} ${hostname}",
              set_text<&Options::log_line_prefix_template>},
      RunFlag{{"prefix", '\0', ""},
              kOutput,
              "put [rank@host] before each console line",
              set<&Options::prefix, parse_switch>},
      RunFlag{{"rank0-only", '\0', ""},
              kOutput,
              "only rank 0 reaches a console",
              set<&Options::rank0_only, parse_switch>},
      RunFlag{{"log-funnel", '\0', ""},
              kOutput,
              "show the lines of all nodes, after [rank@host], where the coordinator runs",
              set<&Options::log_funnel, parse_switch>},
      RunFlag{{"fold", '\0', ""},
              kOutput,
              "show a line that all ranks print once, as [0-7] line",
              set<&Options::fold_lines, parse_switch>},
      RunFlag{{"stdin", '\0', "R"},
              kOutput,
              "local rank that gets our standard input [a lone worker; of several, none]",
              set_integer<&Options::stdin_local_rank, 0, kMaxInt>},
      RunFlag{{"debug-rank", '\0', "R COMMAND"},
              kOutput,
              "start rank R under a debugger: gdb, lldb, pdb or any command",
              set_debug_rank},
      RunFlag{{"events", '\0', "FILE"},
              kOutput,
              "write what happens as JSON lines",
              set<&Options::events_file, parse_file_name>,
              "<file>"},
      RunFlag{{"metrics", '\0', "[HOST:]PORT"},
              kOutput,
              "serve numbers of the ranks for Prometheus, at /metrics [nowhere]",
              set_metrics},

      RunFlag{{"dry-run", '\0', ""},
              kSee,
              "print what would be started, and start nothing",
              set<&Options::dry_run, parse_switch>},
      RunFlag{{"verbose", 'v', ""}, kSee, "say what the launcher does", set<&Options::verbose, parse_switch>},
      RunFlag{{"help", 'h', "", kTorchrun}, kSee, "print this", nullptr},
      RunFlag{{"version", '\0', ""}, kSee, "print the version", nullptr},
      RunFlag{{"print-completion", '\0', "SHELL", kTorchrun},
              kSee,
              "print completions for bash, zsh, tcsh or fish",
              nullptr,
              "bash zsh tcsh fish"},

      // Harmless here.
      RunFlag{{"monitor-interval", '\0', "TIME", kTorchrun},
              kNoEffect,
              "exits are noticed at once; nothing is polled",
              check_monitor_interval},
      RunFlag{{"start-method", '\0', "NAME", kTorchrun},
              kNoEffect,
              "spawn, fork or forkserver",
              check_start_method,
              kStartMethods},
      RunFlag{{"event-log-handler", '\0', "NAME", kTorchrun},
              kNoEffect,
              "only null; see --events",
              check_event_log_handler,
              "null"},
      RunFlag{{"logs-specs", '\0', "NAME", kTorchrun},
              kNoEffect,
              "only default; see --log-dir",
              check_logs_specs,
              "default"},
  };
  return kFlags;
}

std::string environment_variable(const RunFlag& flag) {
  if (!is_env_backed(flag)) return {};
  std::string name = "PET_";
  for (const char c : flag.syntax.name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace ddprun::launcher
