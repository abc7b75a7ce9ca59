#include "rendezvous/membership/natural_order.h"

#include <cstddef>

namespace ddprun::membership {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Cuts a run of digits off the front, without its leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return number;
}

int compare_numbers(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

int compare_naturally(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      if (const int order = compare_numbers(take_number(a), take_number(b)); order != 0) return order;
    } else {
      if (a.front() != b.front()) return a.front() < b.front() ? -1 : 1;
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const int order = compare_naturally(a, b);
  return order != 0 ? order < 0 : a < b;
}

}  // namespace ddprun::membership
