#include "rendezvous/config/json_text.h"

#include "rendezvous/config/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace ddprun::config {
namespace {

constexpr std::size_t kShownBefore = 60;  ///< bytes of a long line shown in front of the caret
constexpr std::size_t kShownAfter = 30;

/// The line of `offset` and a caret below it. Long lines are cut around the caret; tabs become spaces.
std::string with_caret(std::string_view text, std::size_t offset) {
  std::string line(line_of(text, offset));
  std::size_t caret = std::min(static_cast<std::size_t>(position_of(text, offset).column) - 1, line.size());
  const bool ascii =
      std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii && line.size() > caret + kShownAfter) line = line.substr(0, caret + kShownAfter) + " …";
  if (ascii && caret > kShownBefore) {
    line = "… " + line.substr(caret - kShownBefore);
    caret = kShownBefore + 2;
  }
  std::replace(line.begin(), line.end(), '\t', ' ');
  return fmt::format("  {}\n  {:>{}} here", line, "^", caret + 1);
}

Error syntax_error(std::string_view text, std::string_view name, std::size_t offset,
                   std::string_view message) {
  const Position place = position_of(text, offset);
  return {ErrorCode::kConfig,
          fmt::format("{}:{}:{}: {}\n{}", name, place.line, place.column, message, with_caret(text, offset))};
}

/// What Windows editors call "Unicode": every other byte of a JSON text is 0, with or without a mark in
/// front.
bool is_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
         (text.size() > 1 && (text[0] == '\0' || text[1] == '\0'));
}

}  // namespace

Result<JsonText> parse_json_text(std::string_view text, std::string_view name) {
  if (is_utf16(text)) {
    return Error(ErrorCode::kConfig,
                 fmt::format("{0}: this file is UTF-16, and JSON is UTF-8; save it as UTF-8, or run iconv -f "
                             "UTF-16 -t UTF-8 {0}",
                             name));
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  JsonText parsed{.text = text, .value = {}, .offsets = {}};
  if (const auto problem = scan_json(text, parsed.offsets))
    return syntax_error(text, name, problem->offset, problem->message);
  try {
    parsed.value = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // The scanner leaves only what it does not look at: bytes that are not UTF-8.
    return syntax_error(text, name, error.byte > 0 ? error.byte - 1 : 0, "this is not valid UTF-8");
  }
  return parsed;
}

}  // namespace ddprun::config
