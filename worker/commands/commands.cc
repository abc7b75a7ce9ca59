#include "worker/commands/commands.h"

#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/printable.h"
#include "worker/commands/output.h"
#include "worker/training/step/foreign_error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <map>
#include <string_view>

namespace ddprun::commands {
namespace {

constexpr std::size_t kHelpColumns = 80;  ///< where it is no terminal

using Run = int (*)(const config::JobCommandLine& line);

const std::map<std::string_view, Run> kRuns{
    {"eval", run_eval},       {"export", run_export}, {"init", run_init},       {"list", run_list},
    {"predict", run_predict}, {"smoke", run_smoke},   {"summary", run_summary}, {"validate", run_validate}};

/// A command inside of a job (in a worker, in an allocation) is a world of its own.
void leave_the_world() {
  for (const std::string_view name :
       {env_name::kRank, env_name::kLocalRank, env_name::kWorldSize, env_name::kLocalWorldSize,
        env_name::kMasterAddr, env_name::kMasterPort, env_name::kRestartCount, env_name::kLogDir})
    ::unsetenv(std::string(name).c_str());
}

int refuse(const config::JobCommand& command, const Error& error) {
  print_error(printable_lines(fmt::format("ddprun {}: {}\n", command.name, error.message())));
  return training::exit_code_of(error.code());
}

}  // namespace

int run_command(const config::JobCommand& command, const std::vector<std::string>& args) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // beyond ulimit -f a write fails, and what was begun is removed
  leave_the_world();
  const Result<config::JobCommandLine> line = config::parse_command_line(command, args);
  if (!line) {
    print_error(fmt::format("ddprun {}\n", printable(line.error().message(), std::string::npos)));
    return to_exit_code(line.error().code());
  }
  try {
    if (line->wants_help) {
      print(config::command_help(command,
                                 is_terminal(STDOUT_FILENO) ? columns_of(STDOUT_FILENO) : kHelpColumns));
      return exit_code::kOk;
    }
    return kRuns.at(command.name)(*line);
  } catch (const NobodyReads&) {
    return exit_code::kOs;
  } catch (...) {
    return refuse(command, training::describe_exception(std::current_exception()));
  }
}

}  // namespace ddprun::commands
