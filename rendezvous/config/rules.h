#pragma once

#include "rendezvous/config/problem.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace ddprun::config {

/// True when the key at `pointer` makes sense beside its siblings: its schema's "x-when" names the values of
/// a sibling for which it does. A sibling that is not given has its default.
bool applies(const nlohmann::json& schema, const nlohmann::json& values, const std::string& pointer);

/// Writes into `values` what a given key says without words: its schema's "x-implies" names a sibling and that
/// one's value, where it is not given itself.
void imply(const nlohmann::json& schema, nlohmann::json& values);

/// What the key at `pointer` has where it is not given: what its schema's "x-defaults" names for the value of
/// a sibling, else its "default", else null.
nlohmann::json default_at(const nlohmann::json& schema, const nlohmann::json& values,
                          const std::string& pointer);

/// What no single key's schema can say: keys that do not belong to the chosen type, or are missing for it,
/// combinations that contradict each other, and texts with a NUL in them. `values` is what was given, without
/// defaults, and has passed check_against_schema.
std::vector<Problem> check_rules(const nlohmann::json& schema, const nlohmann::json& values);

}  // namespace ddprun::config
