#pragma once

#include "launcher/cli/options.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What a command line asks for.
enum class Command {
  kRun,          ///< start a job: `options`
  kHelp,         ///< print `help_text`, or `command_help` of the command in `text`
  kPrint,        ///< print `text`: the version
  kStore,        ///< serve a store: `store`
  kPs,           ///< list this user's jobs: `as_json`, `keeps_watching`
  kCompletions,  ///< print the completions of `shell`
  kCoordinator,  ///< decide who is in the world, without workers: `coordinator`
  kJobCommand,   ///< hand `job_command` on to ddprun-worker
  kDoctor,       ///< examine this machine, or several: `doctor`
  kWhy,          ///< say why a job does not get on: `job`, `as_json`
  kDrain,        ///< ask a job to let nodes go: `job`, or its coordinator: `drain`
};

/// `ddprun store [--host ADDR] [--port N | --fd N]`
struct StoreCommand {
  std::string host;                 ///< empty: every address
  Port port{29500};                 ///< 0: the kernel chooses
  std::optional<int> inherited_fd;  ///< an inherited listening socket; host and port are ignored then
};

/// `ddprun coordinator --bind [HOST:]PORT --nnodes N|MIN:MAX --rdzv-id ID [--max-restarts K] [--rdzv-conf …]
/// [--rdzv-secret-file F]`
struct CoordinatorCommand {
  std::string host;  ///< empty: every address
  Port port{29400};  ///< 0: the kernel chooses
  membership::JobSpec spec;
  membership::Timing timing;
  std::string secret_file;            ///< empty: `secret`
  std::optional<std::string> secret;  ///< DDPRUN_SECRET
};

/// `ddprun drain --rdzv-endpoint HOST:PORT --rdzv-id ID [--node-rank K] [--rdzv-secret-file F]`
struct DrainCommand {
  std::string host;
  Port port{29400};
  std::string run_id = "none";
  std::optional<NodeRank> node;       ///< none: the whole job
  std::string secret_file;            ///< empty: `secret`
  std::optional<std::string> secret;  ///< DDPRUN_SECRET
};

/// `ddprun doctor [--nnodes N --rdzv-endpoint HOST:PORT [--node-rank K] [--timeout TIME] [--rdzv-secret-file F]]`
struct DoctorCommand {
  int hosts = 1;                             ///< 1: this machine alone, and nothing else counts
  std::optional<Endpoint> endpoint;          ///< none: a scheduler says where
  std::optional<int> node_rank;              ///< below `hosts`; 0: they meet here
  std::chrono::milliseconds timeout{60000};  ///< for all to come
  std::string secret_file;                   ///< empty: `secret`
  std::optional<std::string> secret;         ///< DDPRUN_SECRET
};

struct CommandLine {
  Command command = Command::kRun;
  Options options;
  StoreCommand store;
  CoordinatorCommand coordinator;
  DrainCommand drain;
  DoctorCommand doctor;
  std::optional<std::string> job;  ///< of this host, for why and for drain; empty: the only one
  bool as_json = false;
  bool keeps_watching = false;
  /// One of rendezvous/config/job_commands.h, and what stands behind it.
  std::vector<std::string> job_command;
  std::string shell;  ///< bash, zsh or tcsh
  std::string text;   ///< to be printed, or the command whose help is asked for
};

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

/// A completion script for bash, zsh or tcsh, made from the table of flags.
std::string completion_script(const std::string& shell);

}  // namespace ddprun::launcher
