#pragma once

#include "rendezvous/config/job_commands.h"

#include <string>
#include <vector>

namespace ddprun::commands {

/// Does what `ddprun NAME args…` asks for, and tells the person about it: results on stdout, and why not in one
/// sentence on stderr.
///
/// returns  the exit code
/// Errors   none: foreign exceptions end here
int run_command(const config::JobCommand& command, const std::vector<std::string>& args);

// One for each row of config::job_commands(), with an exit code as result.
// Errors  Exception, and whatever libtorch throws.
int run_eval(const config::JobCommandLine& line);
int run_export(const config::JobCommandLine& line);
int run_init(const config::JobCommandLine& line);
int run_list(const config::JobCommandLine& line);
int run_predict(const config::JobCommandLine& line);
int run_smoke(const config::JobCommandLine& line);
int run_summary(const config::JobCommandLine& line);
int run_validate(const config::JobCommandLine& line);

}  // namespace ddprun::commands
