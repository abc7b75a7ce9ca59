#pragma once

#include "launcher/cli/options.h"
#include "launcher/cli/values.h"
#include "rendezvous/base/result.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// Of one use of a flag, or of its variable.
using FlagValues = std::span<const std::string>;

// What each flag puts into the options. Errors: kUsage, of the values.

/// What `parse`, which may fail, makes of the value.
template <auto member, auto parse>
Result<void> set(Options& options, FlagValues values) {
  auto parsed = parse(values[0]);
  if constexpr (requires { parsed.error(); }) {
    if (!parsed) return parsed.error();
    options.*member = std::move(*parsed);
  } else {
    options.*member = std::move(parsed);
  }
  return ok();
}

template <auto member>
Result<void> set_text(Options& options, FlagValues values) {
  options.*member = values[0];
  return ok();
}

template <auto member, int lowest, int highest>
Result<void> set_integer(Options& options, FlagValues values) {
  return set<member, [](std::string_view text) { return parse_integer(text, lowest, highest); }>(options,
                                                                                                 values);
}

Result<void> set_nodes(membership::JobSpec& spec, std::string_view text);
Result<void> set_secret_file(Options& options, FlagValues values);
/// "" is torchrun's default: none.
Result<void> set_rdzv_endpoint(Options& options, FlagValues values);
Result<void> set_metrics(Options& options, FlagValues values);
Result<void> add_override(Options& options, FlagValues values);
Result<void> set_debug_rank(Options& options, FlagValues values);

// Of those without effect.
/// Nothing is polled, so whatever torchrun's float() takes will do, inf and nan too.
Result<void> check_monitor_interval(Options& options, FlagValues values);
Result<void> check_start_method(Options& options, FlagValues values);
Result<void> check_event_log_handler(Options& options, FlagValues values);
Result<void> check_logs_specs(Options& options, FlagValues values);

}  // namespace ddprun::launcher
