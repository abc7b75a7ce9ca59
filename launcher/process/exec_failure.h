#pragma once

#include "rendezvous/base/error.h"

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// What execve(2) of `path` with `error_number` means, in words with a next step. `head` is how the file
/// begins (empty when it cannot be read): it tells a script whose interpreter is missing from a program that
/// is missing itself. kNotFound when the program is not there, kCannotExecute when it is there and cannot be
/// run, kOs otherwise.
Error explain_exec_failure(std::string_view path, int error_number, std::string_view head);

/// The first bytes of a file, enough for a `#!` line; empty when it cannot be read.
std::string read_head(const std::string& path);

}  // namespace ddprun::launcher
