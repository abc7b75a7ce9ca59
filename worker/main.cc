#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/config/job_commands.h"
#include "rendezvous/config/job_config.h"
#include "worker/commands/commands.h"
#include "worker/training/job.h"
#include "worker/training/step/foreign_error.h"
#include <ddprun/drain.h>
#include <ddprun/record.h>

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun;

constexpr std::string_view kUsage = R"(usage: ddprun-worker JOB.json [--set /json/pointer=value]...

Trains what JOB.json describes, as one worker of a job. ddprun starts as many of them as asked for:

    ddprun --nproc-per-node 2 JOB.json

Started by hand it is a world of one. Keys of the job file: configs/train.schema.json

ddprun validate, eval, export and others are done by this program, too: ddprun --help.
)";

/// After SIGTERM: a peer's death is known within milliseconds, and a restart waits for this process.
constexpr std::chrono::milliseconds kPatience{100};

struct Arguments {
  std::string job_file;
  std::vector<std::string> overrides;
};

Result<Arguments> parse_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("--set=")) {
      arguments.overrides.push_back(word.substr(6));
    } else if (word == "--set") {
      if (++i == words.size()) return Error(ErrorCode::kUsage, "--set needs /json/pointer=value after it");
      arguments.overrides.push_back(words[i]);
    } else if (word.starts_with("-")) {
      return Error(ErrorCode::kUsage,
                   fmt::format("unknown flag {}; ddprun-worker knows --set, --help and --version", word));
    } else if (!arguments.job_file.empty()) {
      return Error(ErrorCode::kUsage,
                   fmt::format("two job files, {} and {}; one is allowed", arguments.job_file, word));
    } else {
      arguments.job_file = word;
    }
  }
  if (arguments.job_file.empty()) return Error(ErrorCode::kUsage, "no job file; see ddprun-worker --help");
  return arguments;
}

/// What is wrong with the job file is the same for all workers of a node: one of them says it.
bool speaks_for_node() {
  const char* local_rank = std::getenv("LOCAL_RANK");
  return local_rank == nullptr || std::string_view(local_rank) == "0";
}

training::Outcome outcome_of(const Error& error, bool speaks = true) {
  return {.exit_code = training::exit_code_of(error.code()), .error = error.message(), .speaks = speaks};
}

training::Outcome run(const std::vector<std::string>& words) {
  // A closed stdout ends no training that writes checkpoints: it goes on under its launcher, which whoever has
  // started it still holds, and ends when that does.
  std::signal(SIGPIPE, SIG_IGN);
  Drain drain({.patience = kPatience});
  const Result<Arguments> arguments = parse_arguments(words);
  if (!arguments) return outcome_of(arguments.error());
  const Result<std::vector<config::Override>> overrides = config::parse_overrides(arguments->overrides);
  if (!overrides) return outcome_of(overrides.error(), speaks_for_node());
  const Result<config::JobConfig> job = config::load_job_config(arguments->job_file, *overrides);
  if (!job) return outcome_of(job.error(), speaks_for_node());
  return training::run_job(*job, drain);
}

/// The one border that foreign exceptions reach.
training::Outcome run_guarded(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (...) {
    return outcome_of(training::describe_exception(std::current_exception()));
  }
}

/// Every rank leaves the error for the launcher's report, once (the file says when it failed), whichever of them
/// it sees end first; one says it aloud.
int conclude(const training::Outcome& outcome) {
  if (!outcome.error.empty() && !outcome.is_filed) write_error_file(outcome.error);
  if (!outcome.error.empty() && outcome.speaks)
    fmt::print(stderr, "{}\n", printable_lines("ddprun-worker: " + outcome.error));
  return outcome.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && (words[0] == "--help" || words[0] == "-h")) {
    std::fputs(kUsage.data(), stdout);
    return exit_code::kOk;
  }
  if (words.size() == 1 && words[0] == "--version") {
    fmt::print("ddprun-worker {}\n", DDPRUN_VERSION);
    return exit_code::kOk;
  }
  if (const config::JobCommand* command = words.empty() ? nullptr : config::find_job_command(words[0])) {
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    return record([&] { return commands::run_command(*command, rest); });
  }
  return record([&] { return conclude(run_guarded(words)); });
}
