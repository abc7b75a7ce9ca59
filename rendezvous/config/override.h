#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/config/problem.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::config {

/// One `--set /json/pointer=value`.
struct Override {
  std::string assignment;  ///< "/json/pointer=value", as typed
  std::string pointer;
  std::string text;  ///< the value as typed
  std::string flag;  ///< "--set /json/pointer=value", for messages
  bool operator==(const Override&) const = default;
};

/// Splits "/json/pointer=value". Errors (kConfig) say what the form is.
Result<Override> parse_override(const std::string& assignment);

/// Each of them, in order. Errors begin with "--set: ".
Result<std::vector<Override>> parse_overrides(const std::vector<std::string>& assignments);

/// Puts the override's value into `values`: as JSON where that is a type the schema allows at this place, as
/// plain text otherwise (so that --set /backend=gloo needs no quotes). Objects on the way are made; a list on
/// the way must have the index. Returns why it cannot be done.
std::optional<Problem> apply_override(const nlohmann::json& schema, const Override& change,
                                      nlohmann::json& values);

}  // namespace ddprun::config
