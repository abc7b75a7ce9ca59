#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::config {

/// Where each value and key of a JSON text begins, by JSON pointer ("" is the whole text).
struct JsonOffsets {
  std::map<std::string, std::size_t> values;
  std::map<std::string, std::size_t> keys;
};

/// The first thing in a text that is not JSON, or a key that stands twice in its object.
struct SyntaxProblem {
  std::size_t offset = 0;
  std::string message;  ///< "expected ',' or '}' after a value, found …", with a hint where the mistake is a
                        ///< known one
};

/// Walks a JSON text (RFC 8259) and fills `offsets`; returns the first problem. It makes no values: that is
/// the JSON library's work, whose own messages name neither the place of a value nor the mistake.
std::optional<SyntaxProblem> scan_json(std::string_view text, JsonOffsets& offsets);

/// `token` as one step of a JSON pointer: '~' and '/' escaped (RFC 6901).
std::string escape_token(std::string_view token);

}  // namespace ddprun::config
