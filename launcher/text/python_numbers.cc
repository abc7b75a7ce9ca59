#include "launcher/text/python_numbers.h"

#include "launcher/text/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace ddprun::launcher {
namespace {

/// Digits with single underscores between them, appended to `plain` without these; false where none stands.
bool consume_digits(std::string_view& text, std::string& plain) {
  const std::size_t before = plain.size();
  while (!text.empty() && is_digit(text.front())) {
    plain += text.front();
    text.remove_prefix(1);
    if (text.size() > 1 && text[0] == '_' && is_digit(text[1])) text.remove_prefix(1);
  }
  return plain.size() > before;
}

/// A '-' goes to `plain`, a '+' nowhere.
void consume_sign(std::string_view& text, std::string& plain) {
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return;
  if (text.front() == '-') plain += '-';
  text.remove_prefix(1);
}

std::optional<double> named_number(std::string_view word, bool is_negative) {
  std::string lower(word);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const double sign = is_negative ? -1.0 : 1.0;
  if (lower == "inf" || lower == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (lower == "nan") return sign * std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

}  // namespace

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\v\f\x1c\x1d\x1e\x1f";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<long long> python_int(std::string_view text) {
  text = stripped(text);
  std::string plain;
  consume_sign(text, plain);
  if (!consume_digits(text, plain) || !text.empty()) return std::nullopt;
  long long number = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::optional<double> python_float(std::string_view text) {
  text = stripped(text);
  std::string plain;
  consume_sign(text, plain);
  if (const auto named = named_number(text, !plain.empty())) return named;
  bool has_digits = consume_digits(text, plain);
  if (text.starts_with('.')) {
    plain += '.';
    text.remove_prefix(1);
    has_digits = consume_digits(text, plain) || has_digits;
  }
  if (!has_digits) return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    plain += 'e';
    text.remove_prefix(1);
    consume_sign(text, plain);
    if (!consume_digits(text, plain)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return std::strtod(plain.c_str(), nullptr);
}

}  // namespace ddprun::launcher
