#pragma once

#include "launcher/cli/command_line.h"
#include "launcher/cli/syntax.h"
#include "rendezvous/base/result.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Those that stand first and are ddprun's own.
std::vector<std::string> command_names();

/// Whether `word`, standing first, is a command of ddprun's own and no program to run.
bool is_command(const std::string& word);

/// Its flags, for completions; none for a word that is no command.
std::span<const FlagSyntax> command_flags(std::string_view command);

/// Whether a job file stands behind it.
bool takes_file(std::string_view command);

/// The arguments behind that command; those of a job file's are for ddprun-worker to judge. Errors kUsage, beginning with the command.
Result<CommandLine> parse_command(const std::string& command, std::span<const std::string> args);

}  // namespace ddprun::launcher
