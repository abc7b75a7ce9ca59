#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Text that somebody else has chosen, fit for one line of a log or a terminal, in at most `longest` bytes:
/// valid UTF-8 in which control characters, those that turn the direction of writing and those that are not
/// seen are written as "\x1b", "\u202e" and "\U000e0041", bytes that are no UTF-8 as '?', and what is too long
/// ends with "…". Its own result is left as it is.
std::string printable(std::string_view text, std::size_t longest);

/// The same of each line, as long as they are.
std::string printable_lines(std::string_view text);

}  // namespace ddprun
