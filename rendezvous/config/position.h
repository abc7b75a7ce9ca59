#pragma once

#include <compare>
#include <cstddef>
#include <string_view>

namespace ddprun::config {

/// A place in a text, both counted from 1; a column is one character (UTF-8 code point), as editors count.
struct Position {
  int line = 1;
  int column = 1;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 behind <=> for a pointer
  auto operator<=>(const Position&) const = default;
};

/// The place of the byte at `offset`.
Position position_of(std::string_view text, std::size_t offset);

/// The whole line that holds the byte at `offset`, without its end.
std::string_view line_of(std::string_view text, std::size_t offset);

}  // namespace ddprun::config
