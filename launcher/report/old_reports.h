#pragma once

#include <chrono>
#include <string>

namespace ddprun::launcher {

/// Removes, from the temporary directory, job folders of ours (ddprun_*) that hold nothing but a report.json
/// of more than a week before `now`. Folders with logs are left.
void prune_old_reports(const std::string& temporary_directory, std::chrono::system_clock::time_point now);

}  // namespace ddprun::launcher
