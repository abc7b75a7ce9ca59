#include "worker/commands/opened_job.h"

#include "worker/runtime/throw_error.h"
#include "worker/training/parts/job_data.h"
#include "worker/training/parts/job_downloads.h"
#include "worker/training/step/kernels.h"
#include "worker/training/step/step.h"

#include <utility>

namespace ddprun::commands {

config::JobConfig read_job_file(const config::JobCommandLine& line) {
  const std::vector<config::Override> overrides =
      runtime::value_or_throw(config::parse_overrides(line.values("set")));
  return runtime::value_or_throw(config::load_job_config(line.words.at(0), overrides));
}

Context world_of_one(const std::string& device, const std::string& backend) {
  InitOptions options;
  options.device = device;
  options.backend = backend;
  options.log = [](const std::string&) {};
  return init(options);
}

OpenedJob open_job(const config::JobCommandLine& line, const std::optional<std::string>& device) {
  const config::JobConfig config = read_job_file(line);
  const Options job(config.values.dump());
  training::JobParts parts = training::built_in_parts();
  if (Result<void> done = training::download_data(job); !done) runtime::throw_error(done.error());
  DataSplits data = runtime::value_or_throw(training::load_data(parts, job));
  Context context = world_of_one(device.value_or(job.text("device")));
  constexpr bool kWithoutFirstWeights = true;
  training::Draft draft =
      training::make_draft(context, job, parts, data.train->shape(), kWithoutFirstWeights);
  draft.model->to(context.device());
  return {.path = config.path,
          .job = job,
          .parts = std::move(parts),
          .data = std::move(data),
          .context = std::move(context),
          .draft = std::move(draft)};
}

std::optional<at::ScalarType> compute_as_trained(const OpenedJob& job) {
  const Options train = job.job.object("train");
  training::choose_kernels(train);
  if (train.flag("channels_last")) training::lay_out_channels_last(job.model());
  return training::autocast_dtype(training::read_step_options(train).precision);
}

}  // namespace ddprun::commands
