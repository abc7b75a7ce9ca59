#pragma once

#include "launcher/report/job_state.h"
#include "launcher/why/facts.h"

#include <optional>

namespace ddprun::launcher::why {

/// What the launcher says after the looks, in which ranks may have ended: whether the job is being stopped or restarted,
/// and who ended with 0 (with anything else all are stopped). Nullopt: the launcher is gone. Pure.
void settle(JobPicture& picture, const std::optional<JobState>& now);

/// The same by what the picture's launcher publishes now.
void settle(JobPicture& picture);

}  // namespace ddprun::launcher::why
