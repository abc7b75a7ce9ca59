#pragma once

#include "rendezvous/base/error.h"

#include <exception>

namespace ddprun::training {

/// What an exception that reached the border of the program means: ours as they are; libtorch's and the
/// standard library's as a sentence without their stack traces, and with the code that decides the exit code.
Error describe_exception(const std::exception_ptr& exception);

/// The exit code of a program that reads job files and ends because of `code`. A file that is not there, or damaged, is
/// the job's: 127 would say that a program is not there.
int exit_code_of(ErrorCode code);

}  // namespace ddprun::training
