#pragma once

#include "rendezvous/base/result.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// How one flag is written. Tables of these drive parsing, help and completions.
struct FlagSyntax {
  std::string_view name;     ///< without dashes, words joined by '-'; '_' is accepted for '-' everywhere
  char short_name = '\0';    ///< "-r", or none
  std::string_view metavar;  ///< what the help calls its values, one word each ("K COMMAND"); empty: a switch
  bool is_torchrun = false;  ///< torchrun has it: abbreviations mean these first
};

/// Number of values a flag takes: the words of its metavar.
std::size_t value_count(const FlagSyntax& flag);

/// One flag found on a command line.
struct FlagUse {
  std::size_t flag = 0;  ///< index into the table
  std::vector<std::string> values;
};

struct ParsedArgs {
  std::vector<FlagUse> flags;     ///< in the order they were written
  std::vector<std::string> rest;  ///< from the first word that is no flag on
  bool ended_by_dashes = false;   ///< `--` stood before it
};

/// Splits arguments as torchrun's argparse does: flags up to the first positional word, everything from there
/// on is the program's own. Accepted are `--flag value`, `--flag=value`, `-r value`, `-r3`, `-r=3`, bundled
/// switches, unambiguous abbreviations, and `--` before the program or else directly after it (the first is
/// dropped, as argparse drops it). A value may have spaces, and begin with a dash where `=` attaches it.
///
/// Errors  kUsage: an unknown flag (with the nearest name), an ambiguous abbreviation, a missing or
///         superfluous value.
///
/// `help` is what lists the flags, for the words of a refusal.
Result<ParsedArgs> split_args(std::span<const FlagSyntax> table, std::span<const std::string> args,
                              std::string_view help = "ddprun --help");

}  // namespace ddprun::launcher
