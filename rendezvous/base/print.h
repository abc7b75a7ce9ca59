#pragma once

#include <string_view>

namespace ddprun {

/// Writes all of `text` to a descriptor: what a command without a loop says. It needs SIGPIPE ignored.
///
/// Blocks   for as long as the reader takes, also when the descriptor is non-blocking; uses no CPU meanwhile.
/// Errors   false when the descriptor takes no more: its reader is gone, its device is full.
bool print_all(int fd, std::string_view text);

}  // namespace ddprun
