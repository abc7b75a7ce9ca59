#pragma once

#include "launcher/why/facts.h"
#include "rendezvous/base/result.h"

#include <string>

namespace ddprun::launcher::why {

/// `ddprun why`: the picture of one job of this user on this host, of which `wanted` is the tag, the run id or the
/// launcher's pid; empty: the only one. Blocks for the looks.
Result<JobPicture> take_picture(const std::string& wanted);

/// Takes the picture, judges it and prints the page, or JSON; the exit code.
int run_why(const std::string& wanted, bool as_json);

}  // namespace ddprun::launcher::why
