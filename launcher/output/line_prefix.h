#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// `block` with `prefix` before every line. A line begins at the start of the block (when `at_line_start`), after
/// each '\n', and after each '\r' that no '\n' follows. Pure; the bytes of the block themselves are unchanged.
std::string with_prefix(std::string_view block, std::string_view prefix, bool at_line_start);

}  // namespace ddprun::launcher
