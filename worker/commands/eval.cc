#include "rendezvous/base/exit_codes.h"
#include "worker/commands/checkpoint_weights.h"
#include "worker/commands/commands.h"
#include "worker/commands/opened_job.h"
#include "worker/commands/output.h"
#include "worker/runtime/throw_error.h"
#include "worker/training/evaluate.h"
#include "worker/training/observers/text.h"
#include "worker/training/parts/job_data.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

training::EvaluateOptions evaluate_options(const OpenedJob& job, std::optional<at::ScalarType> autocast) {
  const Options train = job.job.object("train");
  const Options data = job.job.object("data");
  training::EvaluateOptions options{.device = job.context.device()};
  options.loader.batch_size = train.integer("eval_batch_size");
  options.loader.threads = static_cast<int>(data.integer("loader_threads"));
  options.loader.prefetch_batches = static_cast<int>(data.integer("prefetch_batches"));
  options.loader.pinned = job.context.device().is_cuda();
  options.loader.seed = static_cast<std::uint64_t>(job.job.integer("seed"));
  options.autocast = autocast;
  return options;
}

std::string in_words(const Metric& metric, double value) {
  return metric.is_share ? fmt::format("{} {:.2f} %", metric.name, 100 * value)
                         : fmt::format("{} {}", metric.name, training::human_loss(value));
}

/// Data that the model is judged by, and what it found there; the held-out data has no name.
struct Judged {
  std::string name;
  std::int64_t samples = 0;
  training::Evaluation evaluation;
};

std::vector<Judged> judge(const OpenedJob& job) {
  const std::optional<at::ScalarType> autocast = compute_as_trained(job);
  std::vector<training::JudgingData> data{{"", job.data.held_out}};
  for (training::JudgingData& more :
       runtime::value_or_throw(training::load_judging_data(job.parts, job.job, job.shape())))
    data.push_back(std::move(more));
  std::vector<Judged> all;
  for (const auto& [name, source] : data)
    all.push_back(
        {name, source->size(),
         training::evaluate(job.model(), job.task(), *source, job.context, evaluate_options(job, autocast))});
  return all;
}

}  // namespace

int run_eval(const config::JobCommandLine& line) {
  const models::WeightsOf which = read_weights_of(line);
  const OpenedJob job = open_job(line);
  const Checkpoint checkpoint = find_checkpoint(job.job, line);
  const LoadedWeights weights = load_chosen_weights(job.model(), job.job, checkpoint, which);
  check_data(job.shape(), checkpoint);
  const std::vector<Judged> all_judged = judge(job);
  const std::vector<Metric> metrics = job.task().metrics();
  if (line.has("json")) {
    nlohmann::ordered_json values;
    for (const Judged& judged : all_judged) {
      for (std::size_t i = 0; i < metrics.size(); ++i) {
        const double mean = judged.evaluation.mean(i);
        values[(judged.name.empty() ? "" : judged.name + "/") + metrics[i].name] =
            std::isfinite(mean) ? nlohmann::ordered_json(mean) : nullptr;
      }
    }
    const nlohmann::ordered_json all{
        {"checkpoint", checkpoint.path},
        {"step", weights.position ? nlohmann::ordered_json(weights.position->step) : nullptr},
        {"weights", weights.is_average ? "average" : "model"},
        {"samples", job.data.held_out->size()},
        {"metrics", values}};
    print(all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return exit_code::kOk;
  }
  std::string text;
  for (const Judged& judged : all_judged) {
    for (std::size_t i = 0; i < metrics.size(); ++i)
      text += (i == 0 ? "" : "  ") + in_words(metrics[i], judged.evaluation.mean(i));
    text += fmt::format(" on {} {} {}\n", training::with_thousands(judged.samples),
                        judged.name.empty() ? "held-out" : judged.name,
                        job.shape().unit == "images" ? "images" : "samples");
  }
  print(fmt::format("{}  of {}\n", text, describe(checkpoint, weights)));
  return exit_code::kOk;
}

}  // namespace ddprun::commands
