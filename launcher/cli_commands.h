#pragma once

#include "launcher/cli.h"
#include "rendezvous/base/result.h"

#include <span>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// Those that stand first and are ddprun's own.
std::vector<std::string> command_names();

/// Whether `word`, standing first, is a command of ddprun's own and no program to run.
bool is_command(const std::string& word);

/// The arguments behind that command. Errors kUsage, beginning with the command.
Result<CommandLine> parse_command(const std::string& command, std::span<const std::string> args);

}  // namespace ddprun::launcher
