#pragma once

#include "rendezvous/config/job_commands.h"
#include "rendezvous/config/job_config.h"
#include "worker/training/parts/job_parts.h"
#include "worker/training/step/learner.h"
#include <ddprun/init.h>

#include <optional>
#include <string>

namespace ddprun::commands {

/// The first word of the line, checked, with its --set.
/// Errors  Exception kConfig: all that is wrong with it.
config::JobConfig read_job_file(const config::JobCommandLine& line);

/// A world of this process alone.
/// Errors  Exception: there is no such device.
Context world_of_one(const std::string& device, const std::string& backend = "auto");

/// What a job is made of, opened to be looked at: nothing in its folder changes.
struct OpenedJob {
  std::string path;  ///< of the job file
  Options job;
  training::JobParts parts;
  DataSplits data;
  Context context;
  training::Draft draft;  ///< its model is on the context's device, and has its first weights

  [[nodiscard]] Model& model() const { return *draft.model; }
  [[nodiscard]] const Task& task() const { return *draft.task; }
  [[nodiscard]] const DataShape& shape() const { return data.train->shape(); }
};

/// device  "cpu", or nothing: the job's own
/// Errors  Exception, as a start of the job would end with it.
OpenedJob open_job(const config::JobCommandLine& line,
                   const std::optional<std::string>& device = std::nullopt);

/// Makes kernels and layout of memory those of the job's training, for the whole process: under autocast of the dtype
/// that it returns, if any, the model says what it says there, to the last bit. Once, after the weights are loaded.
std::optional<at::ScalarType> compute_as_trained(const OpenedJob& job);

}  // namespace ddprun::commands
