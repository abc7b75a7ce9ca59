#pragma once

#include "launcher/cli/options.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {

// What a command line asks for. Beside these: Options, to start a job.

struct HelpCommand {
  std::string command;  ///< empty: of ddprun itself
};
struct PrintCommand {
  std::string text;
};
/// `ddprun store [--host ADDR] [--port N | --fd N]`
struct StoreCommand {
  ListenAt at{.port = Port(29500)};
  std::optional<int> inherited_fd;  ///< an inherited listening socket; `at` is ignored then
};
/// `ddprun ps [--json | --watch]`
struct PsCommand {
  bool as_json = false;
  bool keeps_watching = false;
};
/// `ddprun completions bash|zsh|tcsh|fish`
struct CompletionsCommand {
  std::string shell;
};
/// `ddprun coordinator --bind [HOST:]PORT --nnodes N|MIN:MAX --rdzv-id ID [--max-restarts K] [--rdzv-conf …]
/// [--rdzv-secret-file F]`
struct CoordinatorCommand {
  ListenAt at{.port = Port(29400)};
  membership::JobSpec spec;
  membership::Timing timing;
  membership::SecretSource secret;
};
/// `ddprun drain [JOB|PID]`, or `--rdzv-endpoint HOST:PORT --rdzv-id ID [--node-rank K] [--rdzv-secret-file F]`
struct DrainCommand {
  std::optional<std::string> job;  ///< of this host; empty: the only one; none: the coordinator's
  std::string host;
  Port port{29400};
  std::string run_id = "none";
  std::optional<NodeRank> node;  ///< none: the whole job
  membership::SecretSource secret;
};
/// `ddprun doctor [--nnodes N --rdzv-endpoint HOST:PORT [--node-rank K] [--timeout TIME] [--rdzv-secret-file F]]`
struct DoctorCommand {
  int hosts = 1;                             ///< 1: this machine alone, and nothing else counts
  std::optional<Endpoint> endpoint;          ///< none: a scheduler says where
  std::optional<int> node_rank;              ///< below `hosts`; 0: they meet here
  std::chrono::milliseconds timeout{60000};  ///< for all to come
  membership::SecretSource secret;
  bool as_json = false;  ///< of this host alone
};
/// `ddprun why [JOB|PID] [--json]`
struct WhyCommand {
  std::optional<std::string> job;  ///< of this host; empty: the only one
  bool as_json = false;
};
/// One of rendezvous/config/job_commands.h, and what stands behind it: for ddprun-worker.
struct JobCommand {
  std::vector<std::string> words;
};

using CommandLine =
    std::variant<Options, HelpCommand, PrintCommand, StoreCommand, PsCommand, CompletionsCommand,
                 CoordinatorCommand, DrainCommand, DoctorCommand, WhyCommand, JobCommand>;

/// Reads the arguments after the program's name. A flag counts before its PET_ variable, that before its
/// default. A first word that names a command of ours is that command; a program of that name is run as
/// ./store.
///
/// Errors  kUsage: the sentence names the flag or variable, the value, what is allowed.
Result<CommandLine> parse_command_line(std::span<const std::string> args, const EnvLookup& env);

/// The text of `ddprun --help` for a terminal with so many columns; below 70, its lines are of 70.
std::string help_text(std::size_t columns = 80);

/// The same of `ddprun COMMAND --help`, for a command that is not for job files.
std::string command_help(const std::string& command, std::size_t columns = 80);

/// "ddprun 0.1.0 (torchrun 2.15 flags)".
std::string version_text();

/// The shells that `completion_script` knows.
const std::vector<std::string>& completion_shells();

/// A completion script for bash, zsh, tcsh or fish, made from the table of flags.
std::string completion_script(const std::string& shell);

}  // namespace ddprun::launcher
