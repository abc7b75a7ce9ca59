#include "launcher/cli.h"
#include "launcher/cli_flags.h"

#include <fmt/format.h>

#include <string>

namespace ddprun::launcher {
namespace {

constexpr std::string_view kBashTail = R"(  esac
  if (( COMP_CWORD == 1 )) && [[ $word != -* ]]; then
    COMPREPLY=($(compgen -W "store ps completions coordinator drain" -- "$word"))
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
      "  local flags=\"{}\"\n"
      "  case $previous in\n{}{}",
      names, cases, kBashTail);
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
      "  _arguments -S \\\n{}"
      "    '1:job, script, program or command:_alternative \"commands:command:(store ps completions "
      "coordinator drain)\" "
      "\"files:file:_files\" \"programs:program:_command_names -e\"' \\\n"
      "    '*::argument:_files'\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _ddprun ]; then _ddprun \"$@\"; else compdef _ddprun ddprun; fi\n",
      specs);
}

/// tcsh tries the patterns in order; `@` parts them, which no flag, value or sentence has.
std::string tcsh_action(const RunFlag& flag) {
  if (flag.choices == "<file>") return "f";
  if (flag.choices == "<dir>") return "d";
  return flag.choices.empty() ? fmt::format("x:{}", flag.syntax.metavar) : fmt::format("({})", flag.choices);
}

std::string tcsh_script() {
  std::string names;
  std::string rules;
  for (const RunFlag& flag : run_flags()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", flag.syntax.name);
    if (flag.syntax.metavar.empty()) continue;
    rules += fmt::format("  'n@--{}@{}@' \\\n", flag.syntax.name, tcsh_action(flag));
    if (flag.syntax.short_name != '\0')
      rules += fmt::format("  'n@-{}@{}@' \\\n", flag.syntax.short_name, tcsh_action(flag));
  }
  return fmt::format(
      "# tcsh completion for ddprun; load it with: ddprun completions tcsh >~/.ddprun.tcsh; source "
      "~/.ddprun.tcsh\n"
      "complete ddprun \\\n{}  'n@completions@(bash zsh tcsh)@' \\\n  'c@--@({})@' \\\n  'n@*@f@'\n",
      rules, names);
}

}  // namespace

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> kShells{"bash", "zsh", "tcsh"};
  return kShells;
}

std::string completion_script(const std::string& shell) {
  if (shell == "tcsh") return tcsh_script();
  return shell == "zsh" ? zsh_script() : bash_script();
}

}  // namespace ddprun::launcher
