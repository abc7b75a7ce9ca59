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

/// The places of bytes whose offsets come in ascending order: one walk over the text, however many are asked
/// for.
class PositionWalk {
 public:
  explicit PositionWalk(std::string_view text) : text_(text) {}
  Position advance_to(std::size_t offset);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  Position place_;
};

/// The whole line that holds the byte at `offset`, without its end.
std::string_view line_of(std::string_view text, std::size_t offset);

}  // namespace ddprun::config
