#include "launcher/cli/command_line.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/flags.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr std::string_view kBashTail = R"(  esac
  if (( COMP_CWORD == 1 )) && [[ $word != -* ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
    return
  fi
  COMPREPLY+=($(compgen -f -- "$word"))
}
complete -o filenames -F _ddprun ddprun
)";

std::string spelled(const FlagSyntax& flag, std::string_view separator) {
  if (flag.short_name == '\0') return fmt::format("--{}", flag.name);
  return fmt::format("--{}{}-{}", flag.name, separator, flag.short_name);
}

std::string joined(const std::vector<CommandFlag>& flags, std::string_view dashes) {
  std::string names;
  for (const CommandFlag& flag : flags) {
    names += fmt::format("{}{}{}", names.empty() ? "" : " ", dashes, flag.name);
  }
  return names;
}

std::string shells() { return fmt::format("{}", fmt::join(completion_shells(), " ")); }

bool is_file(const CommandFlag& flag) { return flag.metavar == "FILE"; }

/// The kinds of `ddprun list`.
constexpr std::string_view kKinds = "models data tasks transforms optimizers schedules";

/// Words that may stand behind a command.
std::string choices_of(std::string_view command) {
  if (command == "completions") return shells();
  return command == "list" ? std::string(kKinds) : std::string();
}

/// What stands behind a command: its own flags and nothing else.
std::string bash_commands() {
  std::string cases;
  for (const std::string& command : command_names()) {
    std::string values;
    for (const CommandFlag& flag : command_flags(command)) {
      if (flag.metavar.empty()) continue;
      const char* const words = is_file(flag) ? "COMPREPLY=($(compgen -f -- \"$word\")); " : "";
      values += fmt::format("--{}) {}return ;; ", flag.name, words);
    }
    const std::string words = command == "completions"
                                  ? shells()
                                  : fmt::format("{}{}{}", joined(command_flags(command), "--"),
                                                command == "list" ? " " : "", choices_of(command));
    cases += fmt::format("      {})\n", command);
    if (!values.empty()) cases += fmt::format("        case $previous in {}esac\n", values);
    if (takes_file(command))
      cases += "        [[ $word == -* ]] || { COMPREPLY=($(compgen -f -- \"$word\")); return; }\n";
    cases += fmt::format("        COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", words);
  }
  return cases;
}

std::string bash_script() {
  std::string names;
  std::string cases;
  for (const RunFlag& flag : run_flags()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", spelled(flag.syntax, " "));
    if (flag.syntax.metavar.empty()) continue;
    std::string words = "COMPREPLY=()";
    if (flag.choices == "<file>") {
      words = "COMPREPLY=($(compgen -f -- \"$word\"))";
    } else if (flag.choices == "<dir>") {
      words = "COMPREPLY=($(compgen -d -- \"$word\"))";
    } else if (!flag.choices.empty()) {
      words = fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))", flag.choices);
    }
    cases += fmt::format("    {}) {}; return ;;\n", spelled(flag.syntax, "|"), words);
  }
  return fmt::format(
      "# bash completion for ddprun; load it with: source <(ddprun completions bash)\n"
      "_ddprun() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local flags=\"{}\" commands=\"{}\"\n"
      "  COMPREPLY=()\n"
      "  if (( COMP_CWORD > 1 )); then\n"
      "    case ${{COMP_WORDS[1]}} in\n{}"
      "    esac\n"
      "  fi\n"
      "  case $previous in\n{}{}",
      names, fmt::join(command_names(), " "), bash_commands(), cases, kBashTail);
}

/// A help sentence inside zsh's '…[…]:…' specification.
std::string zsh_quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::string zsh_action(const RunFlag& flag) {
  if (flag.syntax.metavar.empty()) return {};
  if (flag.choices == "<file>") return fmt::format(":{}:_files", zsh_quoted(flag.syntax.metavar));
  if (flag.choices == "<dir>") return fmt::format(":{}:_files -/", zsh_quoted(flag.syntax.metavar));
  if (flag.choices.empty()) return fmt::format(":{}: ", zsh_quoted(flag.syntax.metavar));
  return fmt::format(":{}:({})", zsh_quoted(flag.syntax.metavar), flag.choices);
}

std::string zsh_commands() {
  std::string cases;
  for (const std::string& command : command_names()) {
    const std::string choices = choices_of(command);
    std::string specs = choices.empty() ? "" : fmt::format(" '1:choice:({})'", choices);
    if (takes_file(command)) specs += " '*:file:_files'";
    for (const CommandFlag& flag : command_flags(command)) {
      const std::string value = flag.metavar.empty() ? std::string()
                                                     : fmt::format(":{}:{}", zsh_quoted(flag.metavar),
                                                                   is_file(flag) ? "_files" : " ");
      specs += fmt::format(" '--{}{}'", flag.name, value);
    }
    cases +=
        fmt::format("      {}) shift words; (( CURRENT-- )); _arguments -S{}; return ;;\n", command, specs);
  }
  return cases;
}

std::string zsh_script() {
  std::string specs;
  for (const RunFlag& flag : run_flags()) {
    const std::string rest = fmt::format("[{}]{}", zsh_quoted(flag.help), zsh_action(flag));
    specs += fmt::format("    '--{}{}' \\\n", flag.syntax.name, rest);
    if (flag.syntax.short_name != '\0')
      specs += fmt::format("    '-{}{}' \\\n", flag.syntax.short_name, rest);
  }
  return fmt::format(
      "#compdef ddprun\n"
      "# zsh completion for ddprun; load it with: source <(ddprun completions zsh)\n"
      "_ddprun() {{\n"
      "  if (( CURRENT > 2 )); then\n"
      "    case $words[2] in\n{}"
      "    esac\n"
      "  fi\n"
      "  _arguments -S \\\n{}"
      "    '1:job, script, program or command:_alternative \"commands:command:({})\" "
      "\"files:file:_files\" \"programs:program:_command_names -e\"' \\\n"
      "    '*::argument:_files'\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _ddprun ]; then _ddprun \"$@\"; else compdef _ddprun ddprun; fi\n",
      zsh_commands(), specs, fmt::join(command_names(), " "));
}

/// tcsh tries the patterns in order; `@` parts them, which no flag, value or sentence has.
std::string tcsh_action(const RunFlag& flag) {
  if (flag.choices == "<file>") return "f";
  if (flag.choices == "<dir>") return "d";
  return flag.choices.empty() ? fmt::format("x:{}", flag.syntax.metavar) : fmt::format("({})", flag.choices);
}

/// A command's flags at once behind it, with their dashes: they are offered where nothing was typed yet.
std::string tcsh_commands() {
  std::string rules;
  for (const std::string& command : command_names()) {
    if (takes_file(command)) continue;
    const std::string choices = choices_of(command);
    const std::string flags = joined(command_flags(command), "--");
    if (!flags.empty())
      rules += fmt::format("  'n@{}@({}{}{})@' \\\n", command, choices, choices.empty() ? "" : " ", flags);
  }
  return rules;
}

/// What follows "--": tcsh's patterns see the two words before, so which command is meant is found in the
/// whole line. It comes from env's echo: of a line typed ahead, tcsh's own says nothing inside a completion.
std::string tcsh_flags() {
  std::string edits;
  for (const std::string& command : command_names()) {
    edits += fmt::format("-e \"s/.*ddprun  *{} .*/{}/\" -e t ", command, joined(command_flags(command), ""));
  }
  std::string names;
  for (const RunFlag& flag : run_flags()) names += fmt::format(" {}", flag.syntax.name);
  return fmt::format("`env echo \"$COMMAND_LINE\" | sed {}-e \"s/.*/{}/\"`", edits, names);
}

std::string tcsh_script() {
  std::string rules;
  for (const RunFlag& flag : run_flags()) {
    if (flag.syntax.metavar.empty()) continue;
    rules += fmt::format("  'n@--{}@{}@' \\\n", flag.syntax.name, tcsh_action(flag));
    if (flag.syntax.short_name != '\0')
      rules += fmt::format("  'n@-{}@{}@' \\\n", flag.syntax.short_name, tcsh_action(flag));
  }
  return fmt::format(
      "# tcsh completion for ddprun; load it with: ddprun completions tcsh >~/.ddprun.tcsh; source "
      "~/.ddprun.tcsh\n"
      "complete ddprun \\\n{}{}  'c@--@{}@' \\\n  'n@*@f@'\n",
      rules, tcsh_commands(), tcsh_flags());
}

/// What stands in fish's '…'.
std::string fish_quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

/// -x wants a value and offers no files for it, -r does.
std::string fish_action(const RunFlag& flag) {
  if (flag.syntax.metavar.empty()) return {};
  if (flag.choices == "<file>") return " -r";
  if (flag.choices == "<dir>") return " -x -a '(__fish_complete_directories)'";
  return flag.choices.empty() ? " -x" : fmt::format(" -x -a '{}'", flag.choices);
}

std::string fish_commands() {
  std::string lines;
  for (const std::string& command : command_names()) {
    const std::string behind = fmt::format("complete -c ddprun -n '__ddprun_command {}'", command);
    lines += fmt::format("complete -c ddprun -n __ddprun_begins -a {}\n", command);
    if (!takes_file(command)) lines += behind + " -f\n";
    if (const std::string choices = choices_of(command); !choices.empty())
      lines += fmt::format("{} -a '{}'\n", behind, choices);
    for (const CommandFlag& flag : command_flags(command)) {
      const char* const value = is_file(flag) ? " -r" : " -x";
      lines += fmt::format("{} -l {}{}\n", behind, flag.name, flag.metavar.empty() ? "" : value);
    }
  }
  return lines;
}

std::string fish_script() {
  std::string flags;
  for (const RunFlag& flag : run_flags()) {
    const std::string short_name =
        flag.syntax.short_name == '\0' ? std::string() : fmt::format(" -s {}", flag.syntax.short_name);
    flags += fmt::format("complete -c ddprun -n __ddprun_runs -l {}{}{} -d '{}'\n", flag.syntax.name,
                         short_name, fish_action(flag), fish_quoted(flag.help));
  }
  return fmt::format(
      "# fish completion for ddprun; load it with: ddprun completions fish | source\n"
      "function __ddprun_begins\n"
      "  test (count (commandline -opc)) -eq 1\n"
      "end\n"
      "function __ddprun_command\n"
      "  set -l words (commandline -opc)\n"
      "  test \"$words[2]\" = $argv[1]\n"
      "end\n"
      "function __ddprun_runs\n"
      "  set -l words (commandline -opc)\n"
      "  not contains -- \"$words[2]\" {}\n"
      "end\n"
      "complete -c ddprun -e\n{}{}",
      fmt::join(command_names(), " "), flags, fish_commands());
}

}  // namespace

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> kShells{"bash", "zsh", "tcsh", "fish"};
  return kShells;
}

std::string completion_script(const std::string& shell) {
  if (shell == "tcsh") return tcsh_script();
  if (shell == "fish") return fish_script();
  return shell == "zsh" ? zsh_script() : bash_script();
}

}  // namespace ddprun::launcher
