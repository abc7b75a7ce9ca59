#include "rendezvous/base/shell_quote.h"

#include "rendezvous/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ddprun {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./:,=+@%").find(c) != std::string_view::npos;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

/// $'…', in which all that a terminal might act on is written out, byte by byte.
std::string dollar_quoted(std::string_view text) {
  std::string quoted = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte > 0x7e) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '\'' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string in_quotes(std::string_view text) {
  if (printable(text, std::string::npos) != text) return dollar_quoted(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string shell_quote(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || !is_name(word.substr(0, equals))) return in_quotes(word);
  return std::string(word.substr(0, equals + 1)) + in_quotes(word.substr(equals + 1));
}

std::string shell_quote(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  return line;
}

}  // namespace ddprun
