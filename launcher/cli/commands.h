#pragma once

#include "launcher/cli/command_line.h"
#include "rendezvous/base/result.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// One way to write a command, for `ddprun --help`.
struct CommandUsage {
  std::string usage;  ///< "store [--host ADDR] [--port N | --fd N]"
  std::string help;   ///< "serve a TCPStore alone"
};

/// A flag of a command, for completions.
struct CommandFlag {
  std::string name;     ///< without dashes
  std::string metavar;  ///< what its value is called; empty: a switch
};

/// Those that stand first and are ddprun's own, those for job files last.
std::vector<std::string> command_names();

/// Whether `word`, standing first, is a command of ddprun's own and no program to run.
bool is_command(const std::string& word);

/// The ways to write `command`, or all of those that are not for job files.
std::vector<CommandUsage> command_usages(std::string_view command = {});

/// The words and flags that one of those takes, as its help shows them.
std::vector<CommandUsage> command_arguments(std::string_view command);

/// Its flags; none for a word that is no command.
std::vector<CommandFlag> command_flags(const std::string& command);

/// Whether a job file stands behind it.
bool takes_file(std::string_view command);

/// The arguments behind that command; those of a job file's are for ddprun-worker to judge. Errors kUsage,
/// beginning with the command.
Result<CommandLine> parse_command(const std::string& command, std::span<const std::string> args);

}  // namespace ddprun::launcher
