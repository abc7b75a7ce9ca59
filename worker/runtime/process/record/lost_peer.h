#pragma once

#include <exception>

namespace ddprun::runtime {

/// True for what libtorch and gloo throw when a peer, or the way to it, is gone: a consequence of a failure
/// elsewhere. One place decides it, so that a thread of libtorch's that ends the process does it with the
/// code that the main thread would have ended with.
bool means_lost_peer(const std::exception& error);

}  // namespace ddprun::runtime
