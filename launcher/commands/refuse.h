#pragma once

#include "rendezvous/base/error.h"

namespace ddprun::launcher {

/// Says on stderr why ddprun does not do what it was asked for. Returns the exit code of that.
int refuse(const Error& error);

}  // namespace ddprun::launcher
