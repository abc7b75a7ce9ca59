#pragma once

#include <string_view>

namespace ddprun::launcher {

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace ddprun::launcher
