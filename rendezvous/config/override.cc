#include "rendezvous/config/override.h"

#include "rendezvous/base/utf8.h"
#include "rendezvous/config/json_scanner.h"
#include "rendezvous/config/schema_words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <utility>

namespace ddprun::config {
namespace {

using nlohmann::json;

json value_for(const json& schema, const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_discarded() && has_allowed_type(schema, parsed)) return parsed;
  if (parsed.is_discarded() || has_allowed_type(schema, json(text))) return text;
  return parsed;
}

std::optional<std::size_t> index_in(const json& list, const std::string& token) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
  if (error != std::errc() || end != token.data() + token.size() || index >= list.size()) return std::nullopt;
  return index;
}

/// The first pointer on the way to `pointer` that the schema does not know.
std::string first_unknown(const json& schema, const std::string& pointer) {
  std::string unknown = pointer;
  while (schema_at(schema, parent_pointer(unknown)) == nullptr) unknown = parent_pointer(unknown);
  return unknown;
}

/// Without the name and password of a URL: what is said of a flag stands in logs.
std::string shown(const std::string& assignment) {
  const std::size_t scheme = assignment.find("://");
  if (scheme == std::string::npos) return assignment;
  const std::size_t host = scheme + 3;
  const std::size_t at = assignment.substr(0, assignment.find_first_of("/?#", host)).rfind('@');
  if (at == std::string::npos || at < host) return assignment;
  return assignment.substr(0, host) + "…" + assignment.substr(at);
}

}  // namespace

Result<Override> parse_override(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals < 2 || assignment[0] != '/') {
    return Error(ErrorCode::kConfig,
                 fmt::format("expected /json/pointer=value as in /train/epochs=3, got \"{}\"", assignment));
  }
  if (!is_utf8(assignment)) {
    return Error(ErrorCode::kConfig, assignment.substr(0, equals) + ": the value is not valid UTF-8");
  }
  return Override{.assignment = assignment,
                  .pointer = assignment.substr(0, equals),
                  .text = assignment.substr(equals + 1),
                  .flag = "--set " + shown(assignment)};
}

Result<std::vector<Override>> parse_overrides(const std::vector<std::string>& assignments) {
  std::vector<Override> overrides;
  for (const std::string& assignment : assignments) {
    Result<Override> change = parse_override(assignment);
    if (!change) return change.error().with("--set");
    overrides.push_back(std::move(*change));
  }
  return overrides;
}

std::optional<Problem> apply_override(const json& schema, const Override& change, json& values) {
  const json* described = schema_at(schema, change.pointer);
  if (described == nullptr) {
    const std::string unknown = first_unknown(schema, change.pointer);
    return Problem{unknown, unknown_key(schema, unknown)};
  }
  json* at = &values;
  std::string pointer;
  for (const std::string& token : pointer_tokens(change.pointer)) {
    pointer.append("/").append(escape_token(token));
    if (at->is_array()) {
      const auto index = index_in(*at, token);
      if (!index)
        return Problem{change.pointer,
                       fmt::format("there is no place {} in a list of {}", token, at->size())};
      at = &(*at)[*index];
    } else if (at->is_object()) {
      const json* inner = schema_at(schema, pointer);
      if (!at->contains(token)) (*at)[token] = inner->value("default", json::object());
      at = &(*at)[token];
    } else {
      return std::nullopt;  // The file has something else than an object here, and that is refused by itself.
    }
  }
  *at = value_for(*described, change.text);
  return std::nullopt;
}

}  // namespace ddprun::config
