#pragma once

#include <string>

namespace ddprun::membership {

/// "localhost", or an address of 127.0.0.0/8 or ::1: nobody else reaches it.
bool is_loopback(const std::string& host);

/// Whether packets to an address of `host` end at this machine, or `host` is its name. A name that is not
/// this machine's own is looked up, which may block.
bool is_this_machine(const std::string& host);

}  // namespace ddprun::membership
