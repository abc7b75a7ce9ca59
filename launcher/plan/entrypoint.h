#pragma once

#include "launcher/cli/options.h"
#include "launcher/plan/host.h"
#include "rendezvous/base/result.h"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// What kind of thing the positional argument names, by its spelling, the flags beside it, and __main__.py in
/// it.
enum class EntrypointKind {
  kJob,      ///< *.json: our own worker runs it
  kScript,   ///< *.py, *.pyc, *.pyz, a folder with __main__.py, what begins with a dash (-m pkg): python -u
  kModule,   ///< -m: python -u -m
  kProgram,  ///< anything else: as it is
};

EntrypointKind entrypoint_kind(const Options& options);

/// What the command line says in a job file's place: --set in order, then --backend.
std::vector<config::Override> job_overrides(const Options& options);

/// The argv of a worker (template variables not yet filled in), its program found and looked at: argv[0] is
/// absolute or has a slash.
/// Errors  kNotFound (127) or kCannotExecute (126), before anything has been started.
Result<std::vector<std::string>> resolve_command(const Options& options, const HostFacts& host);

/// The Python that runs scripts: PYTHON_EXEC's, that of the environment ddprun is installed in, or PATH's.
/// Errors  kNotFound, with what to do.
Result<std::string> find_python(const HostFacts& host);

/// ddprun-worker, beside this program.
/// Errors  kNotFound, with how to build it.
Result<std::string> find_worker(const std::string& self_directory);

/// The command of --debug-rank, found as above; none without the flag, and as it is where it is Python's own for a
/// script: a module, no program.
/// Errors  as above.
Result<std::vector<std::string>> resolve_debugger(const Options& options, const HostFacts& host);

/// Whether --debug-rank means Python's debugger, for a Python program.
bool is_under_pdb(const Options& options);

}  // namespace ddprun::launcher
