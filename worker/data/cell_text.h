#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::data {

/// Of a file's own text in a message.
inline constexpr std::size_t kShownBytes = 80;

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

inline std::string_view without_blanks(std::string_view cell) {
  while (!cell.empty() && is_blank(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_blank(cell.back())) cell.remove_suffix(1);
  return cell;
}

}  // namespace ddprun::data
