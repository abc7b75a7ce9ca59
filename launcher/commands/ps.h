#pragma once

#include "launcher/report/running_jobs.h"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// A table for a person; says so when there is no job.
std::string render_jobs(const std::vector<JobFacts>& jobs);

/// The same as a JSON array.
std::string jobs_json(const std::vector<JobFacts>& jobs);

/// Fills `last_output_s` of every worker from its log files, which are older than now by that much.
void read_last_output(std::vector<JobFacts>& jobs);

}  // namespace ddprun::launcher
