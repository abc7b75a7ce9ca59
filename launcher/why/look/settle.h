#pragma once

#include "launcher/report/job_state.h"
#include "launcher/why/facts/facts.h"
#include "launcher/why/look/look.h"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// Whether in that phase of a launcher its ranks are those of its last round: they run, or all have succeeded and
/// others are waited for.
bool has_ranks(std::string_view phase);

/// What is known of a job before its ranks are looked at. `launcher` is its pid as we know it.
JobPicture picture_of(const PublishedJob& state, pid_t launcher, std::string command);

/// Its ranks here, each with when /proc says it started; of one that is no more the pid is 0. None before its first
/// round.
std::vector<RankTarget> targets_of(const PublishedJob& state);

/// What the launcher says after the looks, in which ranks may have ended: whether the job is being stopped or
/// restarted, and who ended with 0 (with anything else all are stopped). Nullopt: the launcher is gone. Pure.
void settle(JobPicture& picture, const std::optional<PublishedJob>& now);

/// The same by what the picture's launcher publishes now.
void settle(JobPicture& picture);

/// The connections of the picture's launcher that get no answer, into its first rank. Ranks of one node alone are in it
/// yet. What ranks have sent may all be acknowledged where a host is cut off: the launcher has just asked that host.
void see_launcher_connections(JobPicture& picture);

}  // namespace ddprun::launcher::why
