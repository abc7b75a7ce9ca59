#pragma once

#include "rendezvous/base/result.h"
#include "worker/training/parts/job_parts.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddprun::training {

/// The data of a job file, and before it the plug-ins, which may bring its source: `parts` has what they bring
/// afterwards. Not collective.
Result<DataSplits> load_data(JobParts& parts, const Options& job);

/// Data that a model is judged by beside the held-out data.
struct JudgingData {
  std::string name;
  std::shared_ptr<const DataSource> source;
};

/// What /evaluate names, after load_data(), whose training data says what it has to be like. Not collective.
/// Errors  kConfig: of another shape or with other classes.
Result<std::vector<JudgingData>> load_judging_data(const JobParts& parts, const Options& job,
                                                   const DataShape& training);

/// "name/metric" for each of the task's metrics and each of the data.
std::vector<Metric> metrics_of(const std::vector<Metric>& task, std::span<const JudgingData> data);

}  // namespace ddprun::training
