#include "launcher/cli.h"
#include "launcher/cli_flags.h"

#include <fmt/format.h>

#include <string>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kTextColumn = 31;

constexpr std::string_view kHead = R"(Start the workers of a training job, watch them, and say why it failed.

Usage
  ddprun [flags] <job.json | script.py | program> [args...]
  ddprun store [--host ADDR] [--port N | --fd N]    serve a TCPStore alone
  ddprun ps [--json]                                list your jobs on this host
  ddprun coordinator --bind [HOST:]PORT --nnodes N --rdzv-id ID
                                                    let nodes meet on a machine that is none of them
  ddprun drain [JOB|PID]                            let a job on this host checkpoint and end with 75
  ddprun drain --rdzv-endpoint HOST:PORT --rdzv-id ID [--node-rank R]
                                                    the same for a node, or a job, anywhere
  ddprun completions bash|zsh|tcsh                  print shell completions

A .json job is trained by ddprun-worker, a .py script runs under python3 -u, anything else as it is.
Under Slurm or mpirun, one ddprun a node needs no flag to find the others.
Flags end at the program. --a_b is --a-b; torchrun's flags may also be set as PET_A_B.
)";

constexpr std::string_view kTail = R"(
Exit codes: the failed worker's own, or 128 + signal; 64 bad command line, 69 port or store unavailable,
75 timed out, 78 bad job file, 126/127 program cannot be run or does not exist.

  ddprun --nproc-per-node 2 configs/quickstart.json
  ddprun --nproc-per-node gpu --max-restarts 3 train.py --lr 0.1
)";

std::string usage_of(const FlagSyntax& flag) {
  std::string text = flag.short_name == '\0' ? "      " : fmt::format("  -{}, ", flag.short_name);
  text += fmt::format("--{}", flag.name);
  if (!flag.metavar.empty()) text += fmt::format(" {}", flag.metavar);
  return text;
}

std::string line_of(const RunFlag& flag) {
  const std::string usage = usage_of(flag.syntax);
  const bool fits = usage.size() + 2 <= kTextColumn;
  return fits ? fmt::format("{:<{}}{}\n", usage, kTextColumn, flag.help)
              : fmt::format("{}\n{:<{}}{}\n", usage, "", kTextColumn, flag.help);
}

}  // namespace

std::string help_text() {
  std::string text(kHead);
  const RunFlag* previous = nullptr;
  for (const RunFlag& flag : run_flags()) {
    if (previous == nullptr || previous->group != flag.group)
      text += fmt::format("\n{}\n", to_string(flag.group));
    text += line_of(flag);
    previous = &flag;
  }
  text += kTail;
  return text;
}

std::string version_text() { return fmt::format("ddprun {} (torchrun 2.15 flags)\n", DDPRUN_VERSION); }

}  // namespace ddprun::launcher
