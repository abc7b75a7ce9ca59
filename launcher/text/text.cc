#include "launcher/text/text.h"

#include "launcher/text/number_list.h"
#include "rendezvous/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ddprun::launcher {

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const std::string number = fmt::format("{:.1f}", value);
  const bool is_whole = number.size() > 2 && number.substr(number.size() - 2) == ".0";
  return fmt::format("{} {}", is_whole ? number.substr(0, number.size() - 2) : number, kUnits[unit]);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.push_back(text.substr(0, end));
    const bool is_pair = text.substr(end, 2) == "\r\n";
    text.remove_prefix(std::min(end + (is_pair ? 2 : 1), text.size()));
  }
  return lines;
}

std::vector<std::string_view> last_lines(std::string_view text, std::size_t count) {
  std::vector<std::string_view> lines = split_lines(text);
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [](std::string_view line) { return trim_blanks(line).empty(); }),
              lines.end());
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

std::string shorten(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string shorten_middle(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  std::size_t end = text.size() - longest / 3;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return shorten(text, longest - longest / 3) + std::string(text.substr(end));
}

std::string_view trim_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view value_of(std::string_view text, std::string_view name) {
  constexpr std::string_view kBetween = ": \t";
  for (const std::string_view line : split_lines(text)) {
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    if (rest.empty() || kBetween.find(rest.front()) == std::string_view::npos) continue;
    return rest.substr(std::min(rest.find_first_not_of(kBetween), rest.size()));
  }
  return {};
}

std::uint64_t number_of(std::string_view text, std::string_view name, int base) {
  const std::string_view value = value_of(text, name);
  std::uint64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number, base);
  return number;
}

std::string printable(std::string_view line) {
  std::string shown;
  for (;;) {
    const std::size_t tab = line.find('\t');
    shown += ddprun::printable(line.substr(0, tab), std::string::npos);
    if (tab == std::string_view::npos) return shown;
    shown += '\t';
    line.remove_prefix(tab + 1);
  }
}

std::string rank_phrase(const std::vector<int>& ranks) {
  std::string list = format_number_list(ranks);
  for (std::size_t comma = list.find(','); comma != std::string::npos; comma = list.find(',', comma + 2)) {
    list.insert(comma + 1, " ");
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list);
}

}  // namespace ddprun::launcher
