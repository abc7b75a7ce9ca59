#include "worker/training/job_size.h"

#include "worker/training/parts/plugins.h"
#include "worker/training/state/rng.h"
#include "worker/training/step/trial.h"
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::training {
namespace {

std::int64_t divided_up(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

std::vector<Reduction> read_reductions(const Options& schedule) {
  const std::string type = schedule.text("type");
  std::vector<Reduction> reductions;
  if (type == "step")
    reductions.push_back({"/schedule/step_epochs", static_cast<double>(schedule.integer("step_epochs"))});
  if (type != "multi_step") return reductions;
  for (const double milestone : schedule.numbers("milestones"))
    reductions.push_back({fmt::format("/schedule/milestones/{}", reductions.size()), milestone});
  return reductions;
}

/// How many epochs a job has behind it when it goes `steps` on from `position`, and is not complete before.
double epochs_after(std::int64_t steps, const Position& position, const JobSize& size) {
  const std::int64_t rest = std::max<std::int64_t>(0, size.length.epoch_samples - position.samples_seen);
  const std::int64_t rest_steps = divided_up(rest, size.world.global_batch);
  Position end = position;
  if (steps < rest_steps) {
    end.samples_seen += steps * size.world.global_batch;
  } else {
    end.epoch += 1 + (steps - rest_steps) / size.steps_per_epoch;
    end.samples_seen = (steps - rest_steps) % size.steps_per_epoch * size.world.global_batch;
  }
  return progress_of(end, size.length).epochs;
}

// A reduction after the end is a schedule for another job.
void check_reductions(std::int64_t steps, const Position& position, const JobSize& size) {
  const double last_step = epochs_after(steps - 1, position, size);
  for (const Reduction& reduction : size.reductions) {
    if (reduction.epochs <= last_step) continue;
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}: is never reached: the rate is reduced {} epochs in, and the job's last step, {}, "
                    "begins after {:.6g} (/train/epochs is {}, /train/max_steps {}, and an epoch has {} "
                    "steps in this world of {} rank{}); reduce it earlier, or train longer",
                    reduction.key, reduction.epochs, position.step + steps, last_step, size.length.epochs,
                    size.length.max_steps, size.steps_per_epoch, size.world.ranks,
                    size.world.ranks == 1 ? "" : "s"));
  }
}

}  // namespace

LoopOptions read_loop_options(const Options& job) {
  const Options train = job.object("train");
  const Options data = job.object("data");
  const Options checkpoint = job.object("checkpoint");
  LoopOptions options;
  options.epochs = train.integer("epochs");
  options.max_steps = train.integer("max_steps");
  options.batch_size = train.integer("batch_size");
  options.accumulation = train.integer("accumulation_steps");
  options.eval_batch_size = train.integer("eval_batch_size");
  options.eval_every_epochs = train.integer("eval_every_epochs");
  options.checkpoint_every_epochs = checkpoint.integer("every_epochs");
  options.checkpoint_every_steps = checkpoint.integer("every_steps");
  options.memory_every_steps = checkpoint.integer("memory_every_steps");
  const Options schedule = job.object("schedule");
  options.warmup_steps = schedule.integer("warmup_steps");
  options.reductions = read_reductions(schedule);
  options.log_every_steps = job.object("log").integer("every_steps");
  options.divergence_check = job.integer("divergence_check");
  options.drop_last = train.flag("drop_last");
  options.drop_last_batch = train.flag("drop_last_batch");
  if (job.has("ddp")) options.broadcast_buffers = job.object("ddp").flag("broadcast_buffers");
  options.seed = static_cast<std::uint64_t>(job.integer("seed"));
  options.loader_threads = static_cast<int>(data.integer("loader_threads"));
  options.prefetch_batches = static_cast<int>(data.integer("prefetch_batches"));
  options.keep = static_cast<int>(checkpoint.integer("keep"));
  if (train.has("max_rollbacks")) options.max_rollbacks = train.integer("max_rollbacks");
  options.keep_best = checkpoint.integer("best");
  options.outlives_write_errors = checkpoint.text("on_write_error") == "go_on";
  options.best_by = checkpoint.text("best_by");
  const Options early = job.object("early_stopping");
  options.patience = early.integer("patience");
  options.patience_metric = early.text("metric");
  options.min_delta = early.number("min_delta");
  options.checkpoint_folder = job.text("output_dir") + "/checkpoints";
  return options;
}

DistributedSamplerOptions sampler_options(const LoopOptions& options, int ranks, int rank) {
  DistributedSamplerOptions sampler;
  sampler.world_size = ranks;
  sampler.rank = rank;
  sampler.drop_last = options.drop_last;
  sampler.seed = options.seed;
  return sampler;
}

JobSize size_of_job(const LoopOptions& options, std::int64_t train_samples, int ranks) {
  if (train_samples == 0)
    throw Exception(ErrorCode::kConfig, "the training data has 0 samples; use more data");
  if (train_samples < ranks) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the training data has {} sample{}, and {} ranks need one each; use fewer ranks, or "
                    "more data",
                    train_samples, train_samples == 1 ? "" : "s", ranks));
  }
  const std::int64_t dealt =
      DistributedSampler(train_samples, sampler_options(options, ranks, 0)).samples_per_rank();
  const std::int64_t per_rank = options.drop_last_batch ? dealt - dealt % options.batch_size : dealt;
  if (per_rank == 0) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/train/drop_last_batch: a rank has {} samples, which are no whole batch of {}; use "
                    "a smaller /train/batch_size, or more data",
                    dealt, options.batch_size));
  }
  const std::int64_t epoch_samples = std::min(train_samples, per_rank * ranks);
  return {.world = {.ranks = ranks, .global_batch = ranks * options.batch_size * options.accumulation},
          .length = {.epochs = options.epochs,
                     .max_steps = options.max_steps,
                     .patience = options.patience,
                     .epoch_samples = epoch_samples},
          .steps_per_epoch = divided_up(divided_up(per_rank, options.batch_size), options.accumulation),
          .last_batch = (per_rank - 1) % options.batch_size + 1,
          .reductions = options.reductions};
}

std::int64_t last_due_checkpoint(const LoopOptions& options, const Position& position, const JobSize& size) {
  std::int64_t due = 0;
  if (options.checkpoint_every_steps > 0)
    due = position.step - position.step % options.checkpoint_every_steps;
  if (options.checkpoint_every_epochs == 0) return due;
  const std::int64_t epochs_since = position.epoch % options.checkpoint_every_epochs;
  if (position.epoch == epochs_since) return due;
  const std::int64_t steps_since = divided_up(position.samples_seen, size.world.global_batch);
  return std::max(due, position.step - steps_since - epochs_since * size.steps_per_epoch);
}

void check_last_batch(const Options& job, const JobParts& parts, const DataShape& data, const JobSize& size) {
  if (size.last_batch != 1) return;
  if (size.length.max_steps > 0 && size.length.max_steps < size.steps_per_epoch) return;
  const KeptGenerators kept;
  const Options options = job.object("model");
  const std::shared_ptr<Model> model = make_part(parts.models, options.text("type"), options, data);
  const std::vector<NamedTensor> buffers = view_of(*model).buffers();
  // Others are not looked at: it costs a forward.
  if (std::none_of(buffers.begin(), buffers.end(),
                   [](const NamedTensor& buffer) { return buffer.first.ends_with("running_var"); }))
    return;
  const std::string trouble = trouble_with_one_sample(*model, data);
  if (trouble.empty()) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format(
          "/train/batch_size: each epoch ends with a batch of 1 sample on each of {} ranks ({} samples in "
          "batches of {}), and the model does not learn from one alone: {}; take another batch size or "
          "another number of samples",
          size.world.ranks, size.length.epoch_samples, job.object("train").integer("batch_size"), trouble));
}

std::int64_t steps_left(const Position& position, const JobSize& size) {
  const JobLength& length = size.length;
  std::int64_t steps = 0;
  if (position.epoch < length.epochs) {
    // An epoch ends with a step of its own, however few samples are left for it.
    const std::int64_t rest = std::max<std::int64_t>(0, length.epoch_samples - position.samples_seen);
    steps = divided_up(rest, size.world.global_batch) +
            (length.epochs - position.epoch - 1) * size.steps_per_epoch;
  }
  if (length.max_steps > 0) steps = std::min(steps, length.max_steps - position.step);
  return std::max<std::int64_t>(0, steps);
}

void check_schedule(std::int64_t warmup_steps, const Position& position, const JobSize& size) {
  const std::int64_t left = steps_left(position, size);
  const std::int64_t steps = position.step + left;
  if (left == 0) return;
  // A warm-up that is longer than the job leaves it without its learning rate.
  if (position.step < warmup_steps && warmup_steps >= steps) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("/schedule/warmup_steps: the warm-up of {} steps is not over when the job ends "
                    "after {} ({} epochs in this world of {} ranks); shorten it, or train longer",
                    warmup_steps, steps, size.length.epochs, size.world.ranks));
  }
  // A job that goes on may do so with fewer ranks, which end its steps at an earlier epoch.
  if (position.step == 0) check_reductions(left, position, size);
}

}  // namespace ddprun::training
