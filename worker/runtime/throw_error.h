#pragma once

#include "rendezvous/base/error.h"
#include <ddprun/exception.h>

namespace ddprun::runtime {

/// The border between Result inside and exceptions outside.
[[noreturn]] inline void throw_error(const Error& error) { throw Exception(error.code(), error.message()); }

}  // namespace ddprun::runtime
