#include "launcher/plan/entrypoint.h"

#include "launcher/cli/commands.h"
#include "rendezvous/base/shell_quote.h"
#include "rendezvous/base/suggest.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

Error not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
Error cannot_execute(std::string message) { return {ErrorCode::kCannotExecute, std::move(message)}; }

/// A file that is there and is no directory; `what` says what it was meant to be.
Result<void> check_file(const std::string& path, std::string_view what) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return not_found(fmt::format("{} \"{}\" does not exist", what, path));
    }
    return cannot_execute(fmt::format("{} \"{}\" cannot be reached: {}", what, path, std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    return cannot_execute(
        fmt::format("{} \"{}\" is a directory; Python runs one that has a __main__.py", what, path));
  }
  return ok();
}

Result<void> check_readable(const std::string& path, std::string_view what) {
  if (Result<void> file = check_file(path, what); !file) return file.error();
  if (access(path.c_str(), R_OK) != 0) {
    return cannot_execute(fmt::format("{} \"{}\" cannot be read: {}", what, path, std::strerror(errno)));
  }
  return ok();
}

bool is_executable_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

/// What Python runs when it is given a folder.
std::string main_file(const std::string& folder) { return folder + "/__main__.py"; }

bool is_python_file(std::string_view name) {
  return ends_with(name, ".py") || ends_with(name, ".pyc") || ends_with(name, ".pyz");
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The first executable of that name in PATH, or empty.
std::string find_in_path(const std::string& name, const HostFacts& host) {
  const std::string path = host.env("PATH").value_or(std::string(kDefaultPath));
  std::string_view rest = path;
  while (true) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view directory = rest.substr(0, colon);
    std::string candidate = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    if (is_executable_file(candidate)) return candidate;
    if (colon == rest.size()) return {};
    rest.remove_prefix(colon + 1);
  }
}

Result<std::string> find_program(const std::string& name, const HostFacts& host) {
  if (name.find('/') == std::string::npos) {
    std::string found = find_in_path(name, host);
    if (!found.empty()) return found;
    if (is_folder(name)) return check_file(name, "program").error();
    if (access(name.c_str(), F_OK) == 0) {
      return not_found(fmt::format("program \"{0}\" is not in PATH; to run the file here, write {1}", name,
                                   shell_quote("./" + name)));
    }
    return not_found(
        fmt::format("program \"{}\" does not exist: it is neither in PATH nor a file here", name));
  }
  if (Result<void> file = check_file(name, "program"); !file) return file.error();
  if (access(name.c_str(), X_OK) != 0) {
    return cannot_execute(
        fmt::format("program \"{0}\" is not executable; run chmod +x {1}, or write the interpreter before "
                    "it: python3 {1}",
                    name, shell_quote(name)));
  }
  return name;
}

/// Whether the programs of a venv or of a conda environment are in that folder.
bool is_python_environment(const std::string& programs) {
  return access((programs + "/../pyvenv.cfg").c_str(), F_OK) == 0 ||
         access((programs + "/../conda-meta").c_str(), F_OK) == 0;
}

Result<std::vector<std::string>> python_command(const Options& options, const HostFacts& host) {
  Result<std::string> python = find_python(host);
  if (!python) return python.error();
  if (entrypoint_kind(options) == EntrypointKind::kModule)
    return std::vector<std::string>{*python, "-u", "-m", options.entrypoint};
  // What begins with a dash stands behind `--` and is Python's own: -m pkg, -c code, or - for standard input.
  if (!options.entrypoint.starts_with('-')) {
    const std::string file =
        is_folder(options.entrypoint) ? main_file(options.entrypoint) : options.entrypoint;
    if (Result<void> script = check_readable(file, "script"); !script) return script.error();
  }
  return std::vector<std::string>{*python, "-u", options.entrypoint};
}

Result<std::vector<std::string>> job_command(const Options& options, const HostFacts& host) {
  if (Result<void> job = check_readable(options.entrypoint, "job file"); !job) return job.error();
  Result<std::string> worker = find_worker(host.self_directory);
  if (!worker) return worker.error();
  std::vector<std::string> command{std::move(*worker), options.entrypoint};
  for (const config::Override& change : job_overrides(options))
    command.insert(command.end(), {"--set", change.assignment});
  return command;
}

Result<std::vector<std::string>> program_command(const Options& options, const HostFacts& host) {
  const std::string& name = options.entrypoint;
  Result<std::string> program = find_program(name, host);
  if (program) return std::vector<std::string>{*program};
  // Who mistypes a word hits its first letter: "train" is no ddprun drain.
  const std::optional<std::string> command = nearest_name(name, command_names());
  if (program.error().code() != ErrorCode::kNotFound || !command || command->front() != name.front())
    return program.error();
  return not_found(fmt::format("{}; did you mean \"ddprun {}\"?", program.error().message(), *command));
}

}  // namespace

std::vector<config::Override> job_overrides(const Options& options) {
  std::vector<config::Override> overrides = options.config_overrides;
  if (!options.backend.empty())
    overrides.push_back(config::parse_override("/backend=" + options.backend).value());
  return overrides;
}

Result<std::string> find_python(const HostFacts& host) {
  const std::optional<std::string> chosen = host.env("PYTHON_EXEC");
  if (chosen && !chosen->empty()) {
    Result<std::string> found = find_program(*chosen, host);
    if (!found) return found.error().with("environment variable PYTHON_EXEC");
    return found;
  }
  // As torchrun, which is a script of its environment.
  if (is_python_environment(host.self_directory) && is_executable_file(host.self_directory + "/python3"))
    return host.self_directory + "/python3";
  for (const char* name : {"python3", "python"}) {
    std::string found = find_in_path(name, host);
    if (!found.empty()) return found;
  }
  return not_found(
      "python3 is not in PATH; activate an environment that has it, or set PYTHON_EXEC=/path/to/python3");
}

EntrypointKind entrypoint_kind(const Options& options) {
  // As in torchrun, --run-path outdoes the other two.
  if (options.run_path) return EntrypointKind::kScript;
  if (options.module) return EntrypointKind::kModule;
  if (options.no_python) return EntrypointKind::kProgram;
  if (ends_with(options.entrypoint, ".json")) return EntrypointKind::kJob;
  if (is_python_file(options.entrypoint) || options.entrypoint.starts_with('-'))
    return EntrypointKind::kScript;
  if (access(main_file(options.entrypoint).c_str(), F_OK) == 0) return EntrypointKind::kScript;
  return EntrypointKind::kProgram;
}

Result<std::string> find_worker(const std::string& self_directory) {
  std::string worker = self_directory + "/ddprun-worker";
  if (is_executable_file(worker)) return worker;
  return not_found(
      fmt::format("ddprun-worker, which runs .json jobs, is not beside ddprun in {}, which has the launcher "
                  "alone; install ddprun[worker], the wheel of ddprun-worker, into a virtual environment, or "
                  "build both into build/quick/bin with scripts/quickstart.sh in a clone of ddprun",
                  self_directory));
}

bool is_under_pdb(const Options& options) {
  const EntrypointKind kind = entrypoint_kind(options);
  const bool is_python = kind == EntrypointKind::kScript || kind == EntrypointKind::kModule;
  return is_python && options.debug_rank && options.debug_command.front() == "pdb";
}

Result<std::vector<std::string>> resolve_debugger(const Options& options, const HostFacts& host) {
  std::vector<std::string> command = options.debug_command;
  if (!options.debug_rank || is_under_pdb(options)) return command;
  Result<std::string> found = find_program(command.front(), host);
  if (!found) return found.error().with("--debug-rank");
  command.front() = std::move(*found);
  return command;
}

Result<std::vector<std::string>> resolve_command(const Options& options, const HostFacts& host) {
  const EntrypointKind kind = entrypoint_kind(options);
  Result<std::vector<std::string>> command = kind == EntrypointKind::kJob ? job_command(options, host)
                                             : kind == EntrypointKind::kProgram
                                                 ? program_command(options, host)
                                                 : python_command(options, host);
  if (!command) return command;
  if (options.pass_local_rank) command->push_back("--local-rank=${local_rank}");
  command->insert(command->end(), options.entrypoint_args.begin(), options.entrypoint_args.end());
  return command;
}

}  // namespace ddprun::launcher
