#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::config {

struct JobCommandFlag {
  std::string_view name;     ///< without dashes
  char short_name = '\0';    ///< or none
  std::string_view metavar;  ///< what the help calls its value; empty: a switch
  std::string_view help;
};

/// What can be done with a job file beside training it: `ddprun NAME …`. The launcher knows the commands by this
/// table and hands them on as they are to ddprun-worker, which has the code for them.
struct JobCommand {
  std::string_view name;
  std::string_view words;  ///< "JOB.json INPUT..."
  std::size_t fewest_words = 1;
  std::size_t most_words = 1;
  std::string_view help;  ///< for the launcher's list: a few words
  std::string_view text;  ///< for its own help: what it does, and with which exit code
  std::span<const JobCommandFlag> flags;
};

std::span<const JobCommand> job_commands();
/// Null where there is none of that name.
const JobCommand* find_job_command(std::string_view name);

/// Its help, in lines of at most `columns`, but not below 60.
std::string command_help(const JobCommand& command, std::size_t columns);

/// What was written behind the command.
struct JobCommandLine {
  std::vector<std::string> words;
  std::map<std::string, std::vector<std::string>, std::less<>> flags;  ///< values by name; "" of a switch
  bool wants_help = false;

  [[nodiscard]] bool has(std::string_view flag) const { return flags.find(flag) != flags.end(); }
  /// The last one given, or `fallback`.
  [[nodiscard]] std::string value(std::string_view flag, std::string_view fallback = "") const;
  /// All that were given.
  [[nodiscard]] std::vector<std::string> values(std::string_view flag) const;
};

/// Flags may stand before, between and after the words; behind `--` everything is a word.
/// Errors  kUsage: one sentence that begins with the command.
Result<JobCommandLine> parse_command_line(const JobCommand& command, std::span<const std::string> args);

}  // namespace ddprun::config
