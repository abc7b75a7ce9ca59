#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The word as one would type it into a shell, in one line and fit for a terminal: quoted only where it has
/// to be, and as $'a\nb' where it holds what printable() writes out. Of NAME=value only the value is quoted.
std::string shell_quote(std::string_view word);

/// A command line that can be pasted.
std::string shell_quote(const std::vector<std::string>& words);

}  // namespace ddprun
