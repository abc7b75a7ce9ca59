#pragma once

#include "rendezvous/base/name_lookup.h"

#include <string>

namespace ddprun::membership {

/// "localhost", or an address of 127.0.0.0/8 or ::1: nobody else reaches it.
bool is_loopback(const std::string& host);

/// Whether others can reach who listens there. The host has been looked up.
bool is_reached_by_others(const ListenAt& at);

/// Whether packets to one of the addresses end at this machine.
bool is_this_machine(const HostAddresses& addresses);

}  // namespace ddprun::membership
