#pragma once

#include <optional>
#include <string_view>

namespace ddprun {

/// The number that all of `text` is, in decimal notation with a point, in every locale: "-1.5", "2e-3", ".5", "inf",
/// "nan"; no blanks, no "+" in front, no hexadecimal digits. What is beyond the range of a double is infinite, what is
/// too small for one 0. Null: `text` is none.
[[nodiscard]] std::optional<double> parse_decimal(std::string_view text);

}  // namespace ddprun
