#pragma once

#include "rendezvous/config/problem.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace ddprun::config {

/// Every place where `value` breaks `schema` (JSON Schema, draft 7), each said once and in our words: unknown
/// and missing keys, wrong types, values out of range or not in the list of allowed ones.
std::vector<Problem> check_against_schema(const nlohmann::json& schema, const nlohmann::json& value);

}  // namespace ddprun::config
