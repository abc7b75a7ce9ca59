#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::config {

/// The keys of an object's schema, each with its own schema; none where it is no object's.
const nlohmann::json& properties_of(const nlohmann::json& schema);

/// What a schema says about one value, in words: "an integer from 1 to 64", "one of "sgd", "adam"", "true or
/// false". Used by messages and by nothing else, so that a message and the schema cannot disagree.
std::string expected(const nlohmann::json& schema);

/// True when `value` is of a type that the schema allows.
bool has_allowed_type(const nlohmann::json& schema, const nlohmann::json& value);

/// A value as a message shows it: `70000`, `"gloo"`, `"64" (a string)` where its type is what is wrong, `a
/// list of 3`.
std::string found(const nlohmann::json& schema, const nlohmann::json& value);

/// "; did you mean "resnet18"?" where `value` is nearly one of the words that the schema allows, else "".
std::string nearest_word(const nlohmann::json& schema, const nlohmann::json& value);

/// The schema of the value at `pointer`, or nullptr where the schema knows no such place.
const nlohmann::json* schema_at(const nlohmann::json& schema, std::string_view pointer);

/// The refusal of the key at `pointer`, which the schema does not know: with the nearest key of the same
/// object, or the place where a key of this name belongs, or else all keys that are known there.
std::string unknown_key(const nlohmann::json& schema, std::string_view pointer);

}  // namespace ddprun::config
