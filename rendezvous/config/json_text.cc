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

/// The same text with blanks in place of comments: everything keeps its place.
std::string without_comments(std::string_view text) {
  std::string plain(text);
  bool is_in_string = false;
  for (std::size_t at = 0; at < plain.size(); ++at) {
    if (is_in_string && plain[at] == '\\') {
      ++at;
    } else if (plain[at] == '"') {
      is_in_string = !is_in_string;
    } else if (plain[at] == '\n') {
      is_in_string = false;  // no string has several lines: the scanner will say so
    } else if (!is_in_string && plain.compare(at, 2, "//") == 0) {
      const std::size_t end = std::min(plain.find('\n', at), plain.size());
      std::fill(plain.begin() + static_cast<std::ptrdiff_t>(at),
                plain.begin() + static_cast<std::ptrdiff_t>(end), ' ');
      at = end - 1;
    }
  }
  return plain;
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
  const std::string plain = without_comments(text);
  if (const auto problem = scan_json(plain, parsed.offsets))
    return syntax_error(text, name, problem->offset, problem->message);
  try {
    parsed.value = nlohmann::json::parse(plain);
  } catch (const nlohmann::json::parse_error& error) {
    // The scanner leaves only what it does not look at: bytes that are not UTF-8.
    return syntax_error(text, name, error.byte > 0 ? error.byte - 1 : 0, "this is not valid UTF-8");
  }
  return parsed;
}

}  // namespace ddprun::config
