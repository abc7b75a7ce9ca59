#pragma once

#include "rendezvous/base/error.h"

#include <string_view>

namespace ddprun::launcher {

/// Says on stderr why ddprun does not do what it was asked for. Returns the exit code of that.
int refuse(const Error& error);

/// The same of a message with lines of its own, a list or a place in a file. `who` speaks: "ddprun drain".
int refuse_in_lines(std::string_view who, const Error& error);

/// Prints on stdout what a command was asked for, as print_all. Returns 0; or 71, having said on stderr why
/// stdout does not take it, except where its reader has left, as head does.
int answer(std::string_view text);

}  // namespace ddprun::launcher
