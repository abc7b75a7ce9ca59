#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/config/json_scanner.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace ddprun::config {

/// A JSON text with the place of everything in it.
struct JsonText {
  std::string_view text;  ///< what was parsed, less a byte order mark; the caller's
  nlohmann::json value;
  JsonOffsets offsets;  ///< in `text`
};

/// Parses `text`, which messages call `name`. A syntax error is kConfig and shows the place, the line and a
/// caret:
///
///   job.json:3:5: expected ',' or '}' after a value, found "seed"
///       "seed": 1
///       ^ here
///
/// Comments, from // to the end of the line, are passed over wherever they stand outside of a string. A byte
/// order mark in front is passed over, as editors do; UTF-16 is refused by its name.
Result<JsonText> parse_json_text(std::string_view text, std::string_view name);

}  // namespace ddprun::config
