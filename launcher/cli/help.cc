#include "launcher/cli/command_line.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/flags.h"
#include "rendezvous/config/job_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kTextColumn = 31;
constexpr std::size_t kNarrowest = 70;

constexpr std::string_view kPurpose =
    "Start the workers of a training job, watch them, and say why it failed.";

constexpr std::string_view kRules =
    "A .json job is trained by ddprun-worker, a .py script runs under python3 -u, anything else as it is. "
    "Under Slurm or mpirun, one ddprun a node needs no flag to find the others. Flags end at the program. "
    "--a_b is --a-b; torchrun's flags may also be set as PET_A_B.";

constexpr std::string_view kExitCodes =
    "Exit codes: the failed worker's own, or 128 + signal; 64 bad command line, 69 port or store "
    "unavailable, "
    "75 timed out, 78 bad job file, 126/127 program cannot be run or does not exist.";

constexpr std::string_view kExamples = R"(
  ddprun --nproc-per-node 2 configs/quickstart.json
  ddprun --nproc-per-node gpu --max-restarts 3 train.py --lr 0.1
)";

/// The words of `text` in lines of at most `width`; all but the first begin at `column`, where that one
/// stands.
std::string wrap(std::string_view text, std::size_t column, std::size_t width) {
  std::string lines;
  std::size_t at = column;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const bool is_first = at == column;
    if (!is_first && at + 1 + word.size() > width) {
      lines += fmt::format("\n{:<{}}", "", column);
      at = column;
    } else if (!is_first) {
      lines += ' ';
      ++at;
    }
    lines += word;
    at += word.size();
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return lines + '\n';
}

std::string line_of(std::string_view usage, std::string_view help, std::size_t width) {
  const bool fits = usage.size() + 2 <= kTextColumn;
  return fmt::format("{:<{}}{}{}", usage, fits ? kTextColumn : 0,
                     fits ? std::string() : fmt::format("\n{:<{}}", "", kTextColumn),
                     wrap(help, kTextColumn, width));
}

std::string usage_of(const FlagSyntax& flag) {
  std::string text = flag.short_name == '\0' ? "      " : fmt::format("  -{}, ", flag.short_name);
  text += fmt::format("--{}", flag.name);
  if (!flag.metavar.empty()) text += fmt::format(" {}", flag.metavar);
  return text;
}

}  // namespace

std::string help_text(std::size_t columns) {
  const std::size_t width = std::max(columns, kNarrowest);
  std::string text = wrap(kPurpose, 0, width) + "\nUsage\n";
  text += "  ddprun [flags] <job.json | script.py | program> [args...]\n";
  for (const CommandUsage& line : command_usages())
    text += line_of("  ddprun " + line.usage, line.help, width);
  text += "\nJob files: ddprun COMMAND --help says more\n";
  for (const config::JobCommand& command : config::job_commands())
    text += line_of(fmt::format("  ddprun {} {}", command.name, command.words), command.help, width);
  text += '\n' + wrap(kRules, 0, width);
  const RunFlag* previous = nullptr;
  for (const RunFlag& flag : run_flags()) {
    if (previous == nullptr || previous->group != flag.group)
      text += fmt::format("\n{}\n", to_string(flag.group));
    text += line_of(usage_of(flag.syntax), flag.help, width);
    previous = &flag;
  }
  text += '\n' + wrap(kExitCodes, 0, width);
  text += kExamples;
  return text;
}

std::string command_help(const std::string& command, std::size_t columns) {
  const std::size_t width = std::max(columns, kNarrowest);
  std::string text = "Usage\n";
  for (const CommandUsage& line : command_usages(command))
    text += line_of("  ddprun " + line.usage, line.help, width);
  text += '\n';
  for (const CommandUsage& argument : command_arguments(command))
    text += line_of("  " + argument.usage, argument.help, width);
  return text;
}

std::string version_text() { return fmt::format("ddprun {} (torchrun 2.15 flags)\n", DDPRUN_VERSION); }

}  // namespace ddprun::launcher
