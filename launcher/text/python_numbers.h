#pragma once

#include <optional>
#include <string_view>

/// Numbers as Python reads them, because torchrun's flags are read by Python's int() and float(): blanks
/// around them, a sign, and single underscores between digits are welcome.
namespace ddprun::launcher {

/// int(text): "3", " +3", "1_000". Nullopt: it is none, or beyond 64 bits.
std::optional<long long> python_int(std::string_view text);

/// float(text): "5e-2", ".5", "5.", "1_0.5", "inf", "-Infinity", "nan". Too large a number is infinite, as
/// there.
std::optional<double> python_float(std::string_view text);

/// `text` without the ASCII blanks that Python's strip() takes off.
std::string_view stripped(std::string_view text);

}  // namespace ddprun::launcher
