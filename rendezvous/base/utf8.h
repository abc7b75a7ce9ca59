#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ddprun {

/// A character of UTF-8: its code point and its length.
struct Utf8Character {
  std::uint32_t code;
  std::size_t bytes;
};

/// The one that `text`, which is not empty, begins with; nothing: no UTF-8 begins here. Safe in a signal handler.
[[nodiscard]] std::optional<Utf8Character> first_character(std::string_view text);

/// Whether all of `text` is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

/// As much of `text` as fits into `most` bytes without a character that is cut. Safe in a signal handler.
[[nodiscard]] std::string_view cut_at_character(std::string_view text, std::size_t most);

}  // namespace ddprun
