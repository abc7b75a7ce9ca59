#pragma once

#include "rendezvous/base/error.h"

#include <exception>

namespace ddprun::training {

/// What an exception that reached the border of the program means: ours as they are; libtorch's and the
/// standard library's as a sentence without their stack traces, and with the code that decides the exit code.
Error describe_exception(const std::exception_ptr& exception);

}  // namespace ddprun::training
