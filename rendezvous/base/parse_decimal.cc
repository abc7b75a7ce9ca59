#include "rendezvous/base/parse_decimal.h"

#include <locale.h>

#include <clocale>
#include <cstdlib>
#include <string>

namespace ddprun {
namespace {

/// What strtod takes beyond that: blanks and signs in front, and hexadecimal digits.
bool may_begin_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  constexpr std::string_view kFirst = "0123456789.iInN";
  if (text.empty() || kFirst.find(text.front()) == std::string_view::npos) return false;
  return !text.starts_with("0x") && !text.starts_with("0X");
}

}  // namespace

std::optional<double> parse_decimal(std::string_view text) {
  // std::from_chars of a double came to libstdc++ with gcc 11.
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  if (!may_begin_decimal(text)) return std::nullopt;
  const std::string terminated(text);
  char* end = nullptr;
  const double number = ::strtod_l(terminated.c_str(), &end, kPlain);
  if (end != terminated.c_str() + terminated.size()) return std::nullopt;
  return number;
}

}  // namespace ddprun
