#pragma once

#include "launcher/why/facts/facts.h"
#include "launcher/why/verdict/verdict.h"

#include <string>

namespace ddprun::launcher::why {

/// The verdict for a person: who is guilty, what it does and in which line, and where the others are. Pure.
std::string render(const JobPicture& picture, const Verdict& verdict);

/// The same as JSON, with all facts.
std::string render_json(const JobPicture& picture, const Verdict& verdict);

}  // namespace ddprun::launcher::why
