#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ddprun::config {

/// The schema for what `values` have: an object whose schema says "x-entries" gets a key for each name there, with
/// the schema of the place that the word points to, less what "x-entries-without" lists. So each rule about that
/// place holds for every entry.
void add_named_entries(nlohmann::json& schema, const nlohmann::json& values);

/// The same for the name that `pointer` has on its way, as "/evaluate/photos/type" has.
void add_named_entry(nlohmann::json& schema, const std::string& pointer);

}  // namespace ddprun::config
