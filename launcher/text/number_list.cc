#include "launcher/text/number_list.h"

#include <charconv>
#include <cstddef>

namespace ddprun::launcher {

namespace {

/// Calls `take` with the first and the last number of each run.
template <class Take>
void for_each_run(std::string_view text, Take take) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    const auto [after_first, error] = std::from_chars(at, end, first);
    if (error != std::errc{}) {
      ++at;
      continue;
    }
    int last = first;
    at = after_first;
    if (at < end && *at == '-') {
      const auto [after_last, range_error] = std::from_chars(at + 1, end, last);
      if (range_error == std::errc{}) at = after_last;
    }
    take(first, last);
  }
}

}  // namespace

std::vector<int> parse_number_list(std::string_view text) {
  std::vector<int> numbers;
  for_each_run(text, [&](int first, int last) {
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  });
  return numbers;
}

bool is_in_number_list(std::string_view text, int number) {
  bool is_in = false;
  for_each_run(text, [&](int first, int last) { is_in = is_in || (first <= number && number <= last); });
  return is_in;
}

std::string format_number_list(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ddprun::launcher
