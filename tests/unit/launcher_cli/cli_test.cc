#include "launcher/cli/command_line.h"
#include "launcher/cli/commands.h"
#include "rendezvous/base/exit_codes.h"
#include "tests/support/catch.h"

#include <map>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Variables = std::map<std::string, std::string>;

Result<CommandLine> parse(const std::vector<std::string>& args, const Variables& variables = {}) {
  return parse_command_line(args, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Options options(std::vector<std::string> args, const Variables& variables = {}) {
  args.emplace_back("train.py");
  return std::get<Options>(parse(args, variables).value());
}

template <class Command>
Command as(const std::vector<std::string>& args) {
  return std::get<Command>(parse(args).value());
}

std::string refusal(std::vector<std::string> args, const Variables& variables = {}) {
  args.emplace_back("train.py");
  const Result<CommandLine> line = parse(args, variables);
  if (line) return "accepted";
  CHECK(to_exit_code(line.error().code()) == exit_code::kUsage);
  return line.error().message();
}

}  // namespace

TEST_CASE("the defaults are torchrun's") {
  const Options defaults = options({});
  CHECK(defaults.workers == WorkerCount{.number = 1});
  CHECK(defaults.max_restarts == 0);
  CHECK(defaults.min_nodes == 1);
  CHECK(defaults.max_nodes == 1);
  CHECK(defaults.rdzv_backend == RdzvBackend::kStatic);
  CHECK(defaults.run_id == "none");
  CHECK(defaults.master_addr == "127.0.0.1");
  CHECK(defaults.role == "default");
  CHECK(defaults.log_dir.empty());
  CHECK(defaults.signals_to_handle == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  CHECK(defaults.shutdown_timeout == std::chrono::seconds(30));
}

TEST_CASE("a hang is reported after a minute, or never, and ends nothing unless that is asked for") {
  CHECK_FALSE(options({}).hang_report.has_value());
  CHECK_FALSE(options({}).hang_timeout.has_value());
  CHECK(options({"--hang-report", "0"}).hang_report == std::chrono::seconds(0));
}

TEST_CASE("numbers are served where that is asked for, and --json and --watch are two ways") {
  CHECK_FALSE(options({}).metrics);
  CHECK(options({"--metrics", "127.0.0.1:9400"}).metrics == Endpoint{"127.0.0.1", Port(9400)});
  CHECK(options({"--metrics", "9400"}).metrics == Endpoint{"", Port(9400)});
  CHECK(as<PsCommand>({"ps", "--watch"}).keeps_watching);
  CHECK(parse({"ps", "--watch", "--json"}).error().message() == "ps: --json excludes --watch");
}

TEST_CASE("a secret's file has a name: an empty one does not mean no secret") {
  const std::string sentence =
      "expected a file, got \"\"; is a shell variable unset? Leave the flag out if there is none";
  CHECK(refusal({"--rdzv-secret-file", ""}) == "--rdzv-secret-file: " + sentence);
  CHECK(refusal({"--rdzv-secret-file="}) == "--rdzv-secret-file: " + sentence);
  CHECK(parse({"coordinator", "--rdzv-secret-file", ""}).error().message() ==
        "coordinator: --rdzv-secret-file: " + sentence);
  CHECK(parse({"drain", "--rdzv-endpoint", "a:1", "--rdzv-secret-file", ""}).error().message() ==
        "drain: --rdzv-secret-file: " + sentence);
}

TEST_CASE("a flag may be written with dashes or underscores, with a space or an equals sign") {
  CHECK(options({"--nproc-per-node", "4"}).workers.number == 4);
  CHECK(options({"--nproc_per_node", "4"}).workers.number == 4);
  CHECK(options({"--nproc_per_node=4"}).workers.number == 4);
  CHECK(options({"--log_dir=/a=b"}).log_dir == "/a=b");
}

TEST_CASE("the last use of a flag wins, except for --set, which adds") {
  CHECK(options({"--role", "a", "--role", "b"}).role == "b");
  CHECK(options({"--set", "/a=1", "--set", "/b=2"}).config_overrides ==
        config::parse_overrides({"/a=1", "/b=2"}).value());
}

TEST_CASE("an endpoint and an address are split as they are written") {
  CHECK(options({"--rdzv-endpoint", "head:29400"}).rdzv_endpoint == Endpoint{"head", Port(29400)});
  CHECK(options({"--rdzv-endpoint", "head"}).rdzv_endpoint == Endpoint{"head", std::nullopt});
  CHECK(options({"--rdzv-endpoint", "[::1]:0"}).rdzv_endpoint == Endpoint{"::1", Port(0)});
  CHECK(options({"--rdzv-endpoint", "[::1]"}).rdzv_endpoint == Endpoint{"::1", std::nullopt});
  CHECK(options({"--rdzv-endpoint", ""}).rdzv_endpoint == std::nullopt);
  CHECK(options({"--master-addr", "[::1]"}).master_addr == "::1");
  CHECK(
      refusal({"--rdzv-endpoint", "host:port"}) ==
      "--rdzv-endpoint: expected HOST:PORT with a port in [0, 65535], an IPv6 address as in [::1]:29400, got "
      "\"host:port\"");
  CHECK(refusal({"--rdzv-endpoint", ":29400"}) ==
        "--rdzv-endpoint: the host is missing in \":29400\"; write HOST:29400");
}

TEST_CASE("workers, signals and time-outs are values, not text") {
  CHECK(options({"--nproc-per-node", "auto"}).workers == WorkerCount{.of = WorkerCount::Of::kAuto});
  CHECK(options({"--signals-to-handle", "SIGTERM, usr1"}).signals_to_handle ==
        std::vector<int>{SIGTERM, SIGUSR1});
  CHECK(options({"--rdzv-conf", "join_timeout=5,is_host=0"}).rdzv_conf.is_host == false);
  CHECK(refusal({"--rdzv-conf", "join_timout=5"}) ==
        "--rdzv-conf: unknown key \"join_timout\", known are join_timeout, last_call_timeout, "
        "keep_alive_interval, "
        "keep_alive_max_attempt, rejoin_timeout, is_host; did you mean \"join_timeout\"?");
}

TEST_CASE("what follows the program belongs to the program, flags too") {
  const auto options = as<Options>({"--role", "r", "train.py", "--role", "x", "-h"});
  CHECK(options.entrypoint == "train.py");
  CHECK(options.entrypoint_args == std::vector<std::string>{"--role", "x", "-h"});
  CHECK(options.role == "r");
}

TEST_CASE("a double dash before or directly after the program is dropped, a later one is not") {
  CHECK(as<Options>({"--", "-weird"}).entrypoint == "-weird");
  const std::vector<std::string> rest = as<Options>({"a.py", "--", "x", "--", "y"}).entrypoint_args;
  CHECK(rest == std::vector<std::string>{"x", "--", "y"});
}

TEST_CASE("a flag counts before its PET_ variable, and that before the default") {
  const Variables variables{{"PET_NPROC_PER_NODE", "3"}, {"PET_ROLE", "env"}, {"PET_STANDALONE", "1"}};
  const Options chosen = options({"--role", "flag"}, variables);
  CHECK(chosen.workers.number == 3);
  CHECK(chosen.role == "flag");
  CHECK(chosen.standalone);
  CHECK_FALSE(options({}, {{"PET_STANDALONE", "0"}}).standalone);
  CHECK(options({"--standalone"}, {{"PET_STANDALONE", "0"}}).standalone);
}

TEST_CASE("torchrun's own variable sets the shutdown timeout where no flag does") {
  const Variables variables{{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}};
  CHECK(options({}, variables).shutdown_timeout == std::chrono::seconds(7));
  CHECK(options({"--shutdown-timeout", "2"}, variables).shutdown_timeout == std::chrono::seconds(2));
}

TEST_CASE("a variable of torchrun that it does not read from the environment is not read here either") {
  CHECK_FALSE(options({}, {{"PET_NUMA_BINDING", "node"}}).numa_binding);
}

TEST_CASE("a word that names a mode is that mode") {
  using enum NumaBinding;
  const std::map<std::string, NumaBinding> bindings{
      {"node", kNode}, {"socket", kSocket}, {"exclusive", kExclusive}, {"core-complex", kCoreComplex}};
  for (const auto& [word, binding] : bindings)
    CHECK(options({"--numa-binding", word}).numa_binding == binding);
  CHECK(options({"--rdzv-backend", "c10d"}).rdzv_backend == RdzvBackend::kC10d);
  CHECK(options({"--rdzv-backend", "c10d", "--rdzv-backend", "static"}).rdzv_backend == RdzvBackend::kStatic);
}

TEST_CASE("the first word may be a command of ours") {
  CHECK(as<StoreCommand>({"store", "--port", "0"}).at.port == Port(0));
  CHECK(as<StoreCommand>({"store", "--fd=7"}).inherited_fd == 7);
  CHECK(as<PsCommand>({"ps", "--json"}).as_json);
  CHECK(as<CompletionsCommand>({"completions", "zsh"}).shell == "zsh");
  CHECK(as<Options>({"--nproc-per-node", "1", "ps"}).entrypoint == "ps");
  CHECK(as<Options>({"--", "ps", "aux"}).entrypoint == "ps");
}

TEST_CASE("the flags of a command stand before or behind its word, and an unknown one is refused") {
  const auto why = as<WhyCommand>({"why", "4711", "--json"});
  CHECK(why.job == "4711");
  CHECK(why.as_json);
  CHECK(as<WhyCommand>({"why", "--json", "4711"}).job == "4711");
  CHECK_FALSE(as<WhyCommand>({"why"}).job.has_value());
  CHECK(parse({"why", ""}).error().message() ==
        "why: \"\" is no job: is a variable unset? write ddprun why [JOB|PID] [--json]");
  CHECK(parse({"why", "a", "b"}).error().message() ==
        "why: unexpected \"b\"; write ddprun why [JOB|PID] [--json]");
  CHECK(parse({"why", "--jsno"}).error().message() == "why: unknown flag --jsno; did you mean \"--json\"?");
  CHECK(std::holds_alternative<DoctorCommand>(parse({"doctor"}).value()));
  CHECK(
      parse({"doctor", "now"}).error().message() ==
      "doctor: unexpected \"now\"; write ddprun doctor [--json], or ddprun doctor --nnodes N --rdzv-endpoint "
      "HOST:PORT "
      "[--node-rank K], or ./doctor for a program");
}

TEST_CASE("a doctor of several hosts needs to know how many, and where they meet") {
  const auto told = as<DoctorCommand>(
      {"doctor", "--nnodes", "3", "--rdzv-endpoint", "a:29400", "--node-rank=2", "--timeout", "5s"});
  CHECK(told.hosts == 3);
  CHECK(told.endpoint == Endpoint{"a", Port(29400)});
  CHECK(told.node_rank == 2);
  CHECK(told.timeout == std::chrono::seconds(5));
  CHECK(as<DoctorCommand>({"doctor"}).hosts == 1);
  CHECK_THAT(parse({"doctor", "--rdzv-endpoint", "a:1"}).error().message(),
             Catch::Matchers::StartsWith("doctor: of how many hosts? write ddprun doctor"));
  CHECK_THAT(parse({"doctor", "--nnodes=2", "--rdzv-endpoint=:1"}).error().message(),
             Catch::Matchers::Contains("the host is missing"));
  CHECK(as<DoctorCommand>({"doctor", "--json"}).as_json);
  CHECK(parse({"doctor", "--nnodes=2", "--rdzv-endpoint=a:1", "--json"}).error().message() ==
        "doctor: --json is of one host: run ddprun doctor --json on each, and --nnodes for what lies between "
        "them");
  CHECK(parse({"doctor", "--nnodes=2", "--rdzv-endpoint=a:1", "--node-rank=2"}).error().message() ==
        "doctor: --node-rank 2: 2 hosts have 0 to 1");
  for (const std::string flag :
       {"--nnodes=1", "--nnodes=257", "--nnodes=2000000000000", "--nnodes=1:3", "--nnodes=", "--node-rank=-1",
        "--timeout=0", "--timeout=25h", "--timeout=-1", "--rdzv-endpoint=a:0x1", "--rdzv-endpoint=a:65536",
        "--nodes=2", "--rdzv-secret-file="})
    CHECK_FALSE(parse({"doctor", flag}).has_value());
}

TEST_CASE("the help of a command of ours names all its flags") {
  for (const std::string command : {"store", "ps", "doctor", "why", "coordinator", "drain", "completions"}) {
    CHECK(as<HelpCommand>({command, "--help"}).command == command);
    for (const CommandFlag& flag : command_flags(command))
      CHECK_THAT(command_help(command), Catch::Matchers::Contains("--" + flag.name));
  }
  CHECK(std::holds_alternative<HelpCommand>(parse({"store", "--port", "rubbish", "-h"}).value()));
}

TEST_CASE("the arguments of a command are read by the rules of all others") {
  // What an unset variable leaves is an empty value, and takes no other flag for one.
  const auto coordinator = as<CoordinatorCommand>({"coordinator", "--nnodes=2", "--rdzv-id=", "--bind=0"});
  CHECK(coordinator.spec.run_id.empty());
  CHECK(coordinator.at.port == Port(0));
  CHECK(parse({"store", "--host", "--port", "0"}).error().message() ==
        "store: --host needs a value, got the flag --port; write --host ADDR, or --host=… for a value that "
        "begins with a dash");
  CHECK(parse({"store", "--port"}).error().message() == "store: --port needs a value: --port N");
  CHECK(as<StoreCommand>({"store", "--por", "7"}).at.port == Port(7));
  CHECK(as<StoreCommand>({"store", "--port=1", "--port=2"}).at.port == Port(2));
  CHECK(std::holds_alternative<PsCommand>(parse({"ps", "--"}).value()));
  CHECK(as<WhyCommand>({"why", "--", "--odd"}).job == "--odd");
  CHECK(parse({"why", "--", "job", "--json"}).error().message() ==
        "why: unexpected \"--json\"; write ddprun why [JOB|PID] [--json]");
  CHECK(parse({"coordinator", "--frobnicate"}).error().message() ==
        "coordinator: unknown flag --frobnicate; ddprun coordinator --help lists all");
  CHECK(parse({"ps", "--json=false"}).error().message() == "ps: --json takes no value, got \"false\"");
}

TEST_CASE("a drain with any flag of a coordinator's job never stops the job of this host") {
  for (const std::string flag : {"--rdzv-id=none", "--node-rank=0", "--rdzv-secret-file=x"}) {
    CHECK_THAT(parse({"drain", flag}).error().message(),
               Catch::Matchers::StartsWith("drain: where is the coordinator? "));
  }
}

TEST_CASE("an endpoint is read when nodes meet: the last one, and under --standalone none") {
  CHECK(options({"--standalone", "--rdzv-endpoint", "bogus:99999"}).standalone);
  CHECK(options({"--standalone"}, {{"PET_RDZV_ENDPOINT", ":29400"}}).standalone);
  CHECK(options({"--rdzv-endpoint", ":5", "--rdzv-endpoint", "b:5"}).rdzv_endpoint->host == "b");
  CHECK(options({"--rdzv-endpoint", "::1:29500"}).rdzv_endpoint->host == "::1");
  CHECK_FALSE(parse({"--rdzv-endpoint", "::1", "x"}).has_value());
}

TEST_CASE("help and version need no program") {
  CHECK(std::holds_alternative<HelpCommand>(parse({"--help"}).value()));
  CHECK(std::holds_alternative<HelpCommand>(parse({"-h"}).value()));
  CHECK(std::holds_alternative<HelpCommand>(parse({"--nproc-per-node", "rubbish", "--help"}).value()));
  CHECK(std::holds_alternative<PrintCommand>(parse({"--version"}).value()));
}

TEST_CASE("a debugger gets the words that make it pass the program's arguments on") {
  const Options gdb = options({"--debug-rank", "1", "gdb"});
  CHECK(gdb.debug_rank == 1);
  CHECK(gdb.debug_command == std::vector<std::string>{"gdb", "--args"});
  CHECK(options({"--debug-rank", "0", "valgrind -q"}).debug_command ==
        std::vector<std::string>{"valgrind", "-q"});
}

// Every message a wrong command line can get. All end ddprun with 64, and nothing has been started.
TEST_CASE("a wrong command line is answered with the flag, the value and what is allowed") {
  struct Row {
    std::vector<std::string> args;
    std::string message;
  };
  const std::vector<Row> rows{
      {{"--nprocs-per-node", "2"}, "unknown flag --nprocs-per-node; did you mean \"--nproc-per-node\"?"},
      {{"--no_pyhton"}, "unknown flag --no_pyhton; did you mean \"--no-python\"?"},
      {{"--nprocs", "2"}, "unknown flag --nprocs; did you mean \"--nproc-per-node\"?"},
      {{"--restarts=2"},
       "unknown flag --restarts; did you mean \"--max-restarts\" or \"--max-restarts-window\"?"},
      {{"--gpus=2"}, "unknown flag --gpus; ddprun --help lists all"},
      {{"-nproc-per-node", "2"}, "unknown flag -nproc-per-node; did you mean \"--nproc-per-node\"?"},
      {{"-np", "2"}, "unknown flag -np; did you mean \"--nproc-per-node\"?"},
      {{"-n=2"}, "unknown flag -n=2; did you mean \"--nproc-per-node\"?"},
      {{"-x"}, "unknown flag -x; ddprun --help lists all"},
      {{"--events", "", "t.py"},
       "--events: expected a file, got \"\"; is a shell variable unset? Leave the flag out if there is none"},
      {{"-mq"}, "unknown flag -q in -mq; ddprun --help lists all"},
      {{"--master", "a"}, "flag --master is ambiguous: it could be --master-addr, --master-port"},
      {{"--standalone=yes"}, "--standalone takes no value, got \"yes\""},
      {{"--log-dir", "--tee"},
       "--log-dir needs a value, got the flag --tee; write --log-dir DIR, or --log-dir=… for a value "
       "that begins with a dash"},
      {{"--nproc-per-node", "0"},
       "--nproc-per-node: expected a number of workers in [1, 65536], or auto, cpu or gpu, got \"0\""},
      {{"--nproc-per-node", "-2"},
       "--nproc-per-node: expected a number of workers in [1, 65536], or auto, cpu or gpu, got \"-2\""},
      {{"--nproc-per-node", "many"},
       "--nproc-per-node: expected a number of workers in [1, 65536], or auto, cpu or gpu, got \"many\""},
      {{"--nproc-per-node", ""},
       "--nproc-per-node: expected a number of workers in [1, 65536], or auto, cpu or gpu, got \"\""},
      {{"--max-restarts", "2147483648"},
       "--max-restarts: expected an integer in [0, 2147483647], got \"2147483648\""},
      {{"--max-restarts", "-1"}, "--max-restarts: expected an integer of at least 0, got \"-1\""},
      {{"--master-port", "70000"}, "--master-port: expected an integer in [0, 65535], got \"70000\""},
      {{"--nnodes", "2:1"},
       "--nnodes: expected a number of nodes in [1, 1000000], or MIN:MAX with MIN not above MAX, got "
       "\"2:1\""},
      {{"--nnodes", "1:1000001"},
       "--nnodes: expected a number of nodes in [1, 1000000], or MIN:MAX with MIN not above MAX, got "
       "\"1:1000001\""},
      {{"--nnodes", "0"},
       "--nnodes: expected a number of nodes in [1, 1000000], or MIN:MAX with MIN not above MAX, got \"0\""},
      {{"--tee", "4"},
       "--tee: expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one of them by local rank as in "
       "0:1,12:3, got \"4\""},
      {{"-r", "0:1,1"},
       "--redirects: expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one of them by local rank as "
       "in 0:1,12:3, got "
       "\"0:1,1\""},
      {{"--local-ranks-filter", "0,a"},
       "--local-ranks-filter: expected local ranks separated by commas, as in 0,1,12, got \"0,a\""},
      {{"--signals-to-handle", "SIGTREM"},
       "--signals-to-handle: \"SIGTREM\" is no signal; did you mean \"SIGTERM\"?"},
      {{"--signals-to-handle", "everything"},
       "--signals-to-handle: \"everything\" is no signal; expected names such as SIGTERM,SIGUSR1"},
      {{"--signals-to-handle", "SIGKILL"},
       "--signals-to-handle: \"SIGKILL\": no process can handle SIGKILL; leave it away"},
      {{"--rdzv-backend", "etcd"},
       "--rdzv-backend: \"etcd\" is not spoken by ddprun, whose own rendezvous needs no second service; use "
       "c10d"},
      {{"--rdzv-backend", "c10"},
       "--rdzv-backend: expected static or c10d, got \"c10\"; did you mean \"c10d\"?"},
      {{"--rdzv-conf", "timeout"},
       "--rdzv-conf: expected key=value pairs separated by commas, as in join_timeout=60, got \"timeout\""},
      {{"--start-method", "thread"}, "--start-method: expected spawn, fork or forkserver, got \"thread\""},
      {{"--event-log-handler", "console"},
       "--event-log-handler: \"console\" is a Python plug-in, which ddprun cannot load; use --events FILE, "
       "which writes the job's "
       "events as JSON lines"},
      {{"--logs-specs", "mine"},
       "--logs-specs: \"mine\" is a Python plug-in, which ddprun cannot load; use --log-dir, --redirects and "
       "--tee"},
      {{"--numa-binding", "nodes"},
       "--numa-binding: expected node, socket, exclusive or core-complex, got \"nodes\"; did you mean "
       "\"node\"?"},
      {{"--backend", "ncll"},
       "--backend: expected auto, nccl, gloo or shm, got \"ncll\"; did you mean \"nccl\"?"},
      {{"--set", "epochs=3"}, "--set: expected /json/pointer=value as in /train/epochs=3, got \"epochs=3\""},
      {{"--job-timeout", "1 hour"},
       "--job-timeout: expected seconds, or a duration such as 500ms, 90s, 30m, 1h30m or 2d (at most 365d), "
       "got \"1 hour\""},
      {{"--no-restart-exit-codes", "0"},
       "--no-restart-exit-codes: expected exit codes in [1, 255] separated by commas, as in 93,94, or "
       "nothing for none, got \"0\""},
      {{"--job-timeout", "0"}, "--job-timeout: expected a time above 0, got \"0\""},
      {{"--max-restarts-window", "0s"}, "--max-restarts-window: expected a time above 0, got \"0s\""},
      {{"--stdin", "x"}, "--stdin: expected an integer of at least 0, got \"x\""},
      {{"--debug-rank", "1", ""},
       "--debug-rank: expected a debugger such as gdb, pdb or \"valgrind -q\", got \"\""},
  };
  for (const Row& row : rows) {
    CHECK(refusal(row.args) == row.message);
  }
}

TEST_CASE("rubbish in a PET_ variable is answered with the variable's name") {
  CHECK(refusal({}, {{"PET_STANDALONE", "yes"}}) ==
        "environment variable PET_STANDALONE: expected 1 (on) or 0 (off), got \"yes\"");
  CHECK(refusal({}, {{"PET_MAX_RESTARTS", "x"}}) ==
        "environment variable PET_MAX_RESTARTS: expected an integer of at least 0, got \"x\"");
  CHECK(refusal({}, {{"PET_NPROC_PER_NODE", ""}}) ==
        "environment variable PET_NPROC_PER_NODE: expected a number of workers in [1, 65536], or auto, cpu "
        "or gpu, got \"\"");
}

TEST_CASE("a command line without a program says so") {
  CHECK(parse({"--standalone"}).error().message() ==
        "nothing to run: name a job.json, script.py or program after the flags");
  CHECK(parse({"--standalone", ""}).error().message() ==
        "the program's name is empty; is a shell variable unset?");
  CHECK(parse({"store", "x"}).error().message() ==
        "store: unexpected \"x\"; write ddprun store [--host ADDR] [--port N | --fd N], or ./store "
        "for a program");
  CHECK(parse({"completions", "powershell"}).error().message() ==
        "completions: expected bash, zsh, tcsh or fish, got \"powershell\"");
  CHECK(parse({"completions"}).error().message() == "completions: name one shell: bash, zsh, tcsh or fish");
  CHECK(parse({"store", "--port", "99999"}).error().message() ==
        "store: --port: expected an integer in [0, 65535], got \"99999\"");
}

TEST_CASE("a coordinator of its own is told its place and the size of the world") {
  const auto coordinator =
      as<CoordinatorCommand>({"coordinator", "--bind", "[::1]:0", "--nnodes", "2:4", "--rdzv-id", "j",
                              "--max-restarts", "3", "--rdzv-conf", "join_timeout=5"});
  CHECK(coordinator.at.host == "::1");
  CHECK(coordinator.at.port == Port(0));
  CHECK(coordinator.spec.max_nodes == 4);
  CHECK(coordinator.spec.max_restarts == 3);
  CHECK(coordinator.timing.join_timeout == std::chrono::seconds(5));
  CHECK(parse({"coordinator", "--bind", "host:x"}).error().message() ==
        "coordinator: --bind: expected [HOST:]PORT with a port in [0, 65535], an IPv6 address as in "
        "[::1]:29400, got \"host:x\"");
  CHECK(as<CoordinatorCommand>({"coordinator", "--nnodes=2", "--bind", ":::29400"}).at.host == "::");
  CHECK(parse({"coordinator", "--rdzv-conf", "is_host=maybe"}).error().message() ==
        "coordinator: --rdzv-conf: is_host must be true or false, got \"maybe\"");
}

TEST_CASE("a coordinator for one node, which nobody could join, is refused") {
  const std::string sentence =
      "coordinator: a job of one node serves its own store and joins no coordinator; give --nnodes N or "
      "MIN:MAX, for two nodes or more";
  CHECK(parse({"coordinator", "--bind", ":0"}).error().message() == sentence);
  CHECK(parse({"coordinator", "--bind", ":0", "--nnodes", "1"}).error().message() == sentence);
  CHECK(as<CoordinatorCommand>({"coordinator", "--bind", ":0", "--nnodes", "1:2"}).spec.max_nodes == 2);
}

TEST_CASE("what is done with a job file goes on to its worker as it was written") {
  const CommandLine line = parse({"eval", "job.json", "--jsn"}).value();
  CHECK(std::get<JobCommand>(line).words == std::vector<std::string>{"eval", "job.json", "--jsn"});
  CHECK(as<Options>({"--", "eval", "job.json"}).entrypoint == "eval");
  CHECK(as<Options>({"./eval"}).entrypoint == "./eval");
}

TEST_CASE("draining a job of this host names it, or nothing where there is only one") {
  CHECK(as<DrainCommand>({"drain", "job-7"}).job == "job-7");
  CHECK(as<DrainCommand>({"drain"}).job == "");
  CHECK_FALSE(as<DrainCommand>({"drain", "--rdzv-endpoint", "head:1"}).job.has_value());
  CHECK_THAT(parse({"drain", "--rdzv-endpoint", "head:1", "job-7"}).error().message(),
             Catch::Matchers::StartsWith("drain: \"job-7\" and an endpoint are two jobs"));
}

TEST_CASE("draining names the coordinator, and a node or none") {
  const auto drain =
      as<DrainCommand>({"drain", "--rdzv-endpoint", "head:29400", "--rdzv-id", "j", "--node-rank", "1"});
  CHECK(drain.host == "head");
  CHECK(drain.node == NodeRank(1));
  CHECK_FALSE(as<DrainCommand>({"drain", "--rdzv-endpoint", "head:1"}).node.has_value());
  CHECK(parse({"drain", "--node-rank", "1"}).error().message() ==
        "drain: where is the coordinator? write ddprun drain [JOB|PID], or ddprun drain --rdzv-endpoint "
        "HOST:PORT "
        "--rdzv-id ID [--node-rank R]");
}

TEST_CASE("a scheduler's environment stands in for the flags that say where nodes meet, and for no others") {
  const Variables openmpi{
      {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const Options found = options({}, openmpi);
  CHECK(found.max_nodes == 2);
  CHECK(found.node_rank == 1);
  CHECK(found.master_addr == "127.0.0.1");
  CHECK(options({"--standalone"}, openmpi).max_nodes == 1);
  CHECK(options({"--nnodes", "1"}, openmpi).max_nodes == 1);
  const Variables elsewhere{
      {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  CHECK(refusal({}, elsewhere) ==
        "Open MPI started ddprun on 2 nodes but does not tell the first one's name; add --master-addr HOST, "
        "or --standalone for "
        "a job of this node alone");
}

TEST_CASE("an address that mpirun's nodes are told is no reason for a world of one each") {
  const Variables openmpi{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  const Options found = options({"--master-addr", "node-a"}, openmpi);
  CHECK(found.max_nodes == 2);
  CHECK(found.node_rank == 1);
  CHECK(found.master_addr == "node-a");
  CHECK(options({"--master-addr", "node-a", "--master-port", "5"}, openmpi).master_port == 5);
  CHECK(options({"--rdzv-endpoint", "node-a:5"}, openmpi).max_nodes == 1);
}

TEST_CASE("an elastic job learns its address from Slurm, and pins no rank") {
  const Variables slurm{{"SLURM_JOB_ID", "17"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "1"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_NNODES", "3"},
                        {"SLURM_NTASKS", "3"},
                        {"SLURM_STEP_NODELIST", "n[1-3]"}};
  const Options found = options({"--nnodes", "2:3"}, slurm);
  CHECK(found.min_nodes == 2);
  CHECK(found.max_nodes == 3);
  CHECK(found.master_addr == "n1");
  CHECK_FALSE(found.node_rank);
}
