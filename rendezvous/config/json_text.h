#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/config/position.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>

namespace ddprun::config {

/// A JSON text with the place of everything in it, by JSON pointer.
struct JsonText {
  nlohmann::json value;
  std::map<std::string, Position> values;  ///< where each value begins
  std::map<std::string, Position> keys;    ///< where each key begins
};

/// Parses `text`, which messages call `name`. A syntax error is kConfig and shows the place, the line and a
/// caret:
///
///   job.json:3:5: expected ',' or '}' after a value, found "seed"
///       "seed": 1
///       ^ here
///
/// A byte order mark in front is passed over, as editors do; UTF-16 is refused by its name.
Result<JsonText> parse_json_text(std::string_view text, std::string_view name);

}  // namespace ddprun::config
