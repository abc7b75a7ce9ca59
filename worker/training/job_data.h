#pragma once

#include "rendezvous/base/result.h"
#include "worker/training/job_parts.h"

namespace ddprun::training {

/// The data of a job file, and before it the plug-ins, which may bring its source: `parts` has what they bring
/// afterwards. Not collective.
Result<DataSplits> load_data(JobParts& parts, const Options& job);

}  // namespace ddprun::training
