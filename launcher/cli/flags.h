#pragma once

#include "launcher/cli/flag_setters.h"
#include "launcher/cli/options.h"
#include "launcher/cli/syntax.h"
#include "rendezvous/base/result.h"

#include <span>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The chapters of --help, in its order.
enum class FlagGroup { kWorkers, kNodes, kProgram, kFailures, kOutput, kSee, kNoEffect };

std::string_view to_string(FlagGroup group);

/// When the value of a flag counts. torchrun reads some where nodes meet, and no sooner: of several uses the last,
/// whatever the others say.
enum class FlagReading { kAtOnce, kLast, kLastUnlessStandalone };

/// A flag of `ddprun` that starts a job: the one source of parsing, PET_ variables, --help and completions.
struct RunFlag {
  FlagSyntax syntax;
  FlagGroup group = FlagGroup::kWorkers;
  std::string_view help;  ///< one sentence; says the default where there is one
  /// Puts the values of one use (or of the PET_ variable; "1" for a switch) into the options. Null: it
  /// prints something in place of a job.
  Result<void> (*set)(Options& options, FlagValues values) = nullptr;
  /// Words a shell may complete, separated by spaces; "<file>" and "<dir>" are paths.
  std::string_view choices{};
  FlagReading reading = FlagReading::kAtOnce;
};

std::span<const RunFlag> run_flags();

/// "PET_NPROC_PER_NODE" for a flag that torchrun reads from the environment, otherwise empty.
std::string environment_variable(const RunFlag& flag);

}  // namespace ddprun::launcher
