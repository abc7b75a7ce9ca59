#include "launcher/cli/command_line.h"
#include "launcher/cli/reply.h"
#include "launcher/commands/coordinator.h"
#include "launcher/commands/drain.h"
#include "launcher/commands/ps.h"
#include "launcher/commands/run_job.h"
#include "launcher/commands/store.h"
#include "launcher/commands/why.h"
#include "launcher/doctor/doctor.h"
#include "launcher/output/pty.h"
#include "launcher/plan/entrypoint.h"
#include "launcher/plan/host.h"
#include "launcher/process/own_descriptors.h"
#include "launcher/watch/watch_command.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/print.h"

#include <boost/system/system_error.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::launcher;

/// -v, or else LOGLEVEL as torchrun has it, or else warnings.
spdlog::level::level_enum log_level(const Options& options) {
  if (options.verbose) return spdlog::level::info;
  const std::optional<std::string> wanted = process_env("LOGLEVEL");
  if (!wanted) return spdlog::level::warn;
  const Result<spdlog::level::level_enum> level = parse_log_level(*wanted);
  return level ? *level : spdlog::level::warn;
}

int carry_out(const HelpCommand& help) {
  const std::size_t columns = terminal_columns(STDOUT_FILENO);
  return answer(help.command.empty() ? help_text(columns) : command_help(help.command, columns));
}

int carry_out(const PrintCommand& print) { return answer(print.text); }
int carry_out(const CompletionsCommand& completions) { return answer(completion_script(completions.shell)); }
int carry_out(const StoreCommand& store) { return serve_store(store); }
int carry_out(const DoctorCommand& doctor) { return run_doctor(doctor); }
int carry_out(const WhyCommand& why) { return run_why(why.job.value_or(""), why.as_json); }
int carry_out(const CoordinatorCommand& coordinator) { return coordinate(coordinator, log_level({})); }

int carry_out(const PsCommand& ps) {
  if (ps.keeps_watching) return watch::watch_jobs();
  std::vector<JobFacts> jobs = find_jobs(read_own_processes());
  read_last_output(jobs);
  return answer(ps.as_json ? jobs_json(jobs) : render_jobs(jobs));
}

int carry_out(const DrainCommand& drain) {
  constexpr std::size_t kNeeded = 16;  // a loop, its bells, a look-up and a connection
  if (const auto raised = raise_open_files("ddprun drain", kNeeded); !raised) return refuse(raised.error());
  return drain.job ? drain_local_job(*drain.job) : drain_through_coordinator(drain);
}

/// Becomes ddprun-worker. Returns where it cannot.
int carry_out(const JobCommand& command) {
  const Result<std::string> worker = find_worker(self_directory());
  if (!worker) return refuse(worker.error());
  std::vector<std::string> words{*worker};
  words.insert(words.end(), command.words.begin(), command.words.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // What own_standard_streams() ignores would be ignored by the next program as well.
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  ::execv(worker->c_str(), argv.data());
  return refuse(Error(ErrorCode::kCannotExecute, os_error("cannot run " + *worker, errno).message()));
}

int run(const std::vector<std::string>& args, const std::optional<std::string>& secret) {
  if (args.empty()) {
    print_all(STDERR_FILENO, help_text(terminal_columns(STDERR_FILENO)));
    return exit_code::kUsage;
  }
  Result<CommandLine> line = parse_command_line(args, process_env);
  if (!line) return refuse(line.error());
  return std::visit(
      [&]<class Command>(Command& command) {
        if constexpr (requires { command.secret; }) command.secret.text = secret;
        if constexpr (std::is_same_v<Command, Options>) {
          return run_job(command, *make_stderr_logger("ddprun", log_level(command)));
        } else {
          return carry_out(command);
        }
      },
      *line);
}

}  // namespace

int main(int argc, char** argv) {
  own_standard_streams();
  try {
    const std::optional<std::string> secret = take_process_env(env_name::kSecret);
    return run(std::vector<std::string>(argv + 1, argv + argc), secret);
  } catch (const boost::system::system_error& refused) {  // asio's, of what it cannot open
    print_all(STDERR_FILENO, fmt::format("ddprun: {}\n", refused.what()));
    return exit_code::kOs;
  } catch (const std::exception& problem) {
    print_all(STDERR_FILENO, fmt::format("ddprun: bug: {}\n", problem.what()));
    return exit_code::kInternal;
  }
}
