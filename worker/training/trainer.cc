#include "worker/training/trainer.h"

#include "worker/training/evaluate.h"
#include "worker/training/make_optimizer.h"
#include "worker/training/rng.h"
#include "worker/training/text.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ddprun::training {
namespace {

DistributedDataParallelOptions ddp_options(const DdpConfig& config) {
  DistributedDataParallelOptions options;
  options.bucket_cap_mb = config.bucket_cap_mb;
  options.broadcast_buffers = config.broadcast_buffers;
  options.find_unused_parameters = config.find_unused_parameters;
  options.static_graph = config.static_graph;
  options.gradient_as_bucket_view = config.gradient_as_bucket_view;
  return options;
}

DistributedSamplerOptions sampler_options(const Context& context, std::uint64_t seed) {
  DistributedSamplerOptions options;
  options.world_size = context.world_size();
  options.rank = context.rank();
  options.seed = seed;
  return options;
}

JobLength job_length(const TrainConfig& config, std::int64_t samples_per_rank) {
  JobLength length;
  length.steps_per_epoch = (samples_per_rank + config.batch_size - 1) / config.batch_size;
  length.total_steps = length.steps_per_epoch * config.epochs;
  if (config.max_steps > 0) length.total_steps = std::min(length.total_steps, config.max_steps);
  return length;
}

double mean_or_zero(double sum, double count) { return count > 0 ? sum / count : 0; }

}  // namespace

Trainer::Trainer(TrainerParts parts, const PtDict* checkpoint)
    : parts_(std::move(parts)),
      device_(parts_.context.device()),
      sampler_(parts_.data.train.count, sampler_options(parts_.context, parts_.config.seed)),
      checkpoints_(parts_.config.output_dir + "/checkpoints", parts_.config.checkpoint.keep),
      length_(job_length(parts_.config, sampler_.samples_per_rank())),
      fresh_loss_(at::zeros({2}, at::TensorOptions(device_).dtype(at::kDouble))) {
  const TrainConfig& config = parts_.config;
  seed_generators(device_, config.seed);
  model_ = models::make_model(config.model);
  if (checkpoint != nullptr) load_state_dict(*model_, checkpoint->at("model").as_dict());
  model_->to(device_);
  ddp_.emplace(model_, parts_.context, ddp_options(config.ddp));
  optimizer_ = make_optimizer(config.optimizer, ddp_->parameters());
  seed_generators(device_, rank_seed(config.seed, parts_.context.rank(), 0));
  if (checkpoint != nullptr) restore(*checkpoint);
  if (config.divergence_check > 0) {
    divergence_check_.emplace(parts_.context, *model_, *optimizer_,
                              DivergenceCheckOptions{.every_steps = config.divergence_check});
  }
}

void Trainer::restore(const PtDict& checkpoint) {
  const JobState state = read_job_state(checkpoint);
  if (state.optimizer_type != parts_.config.optimizer.type) {
    throw Exception(ErrorCode::kConfig, fmt::format("its optimizer is {}, the job file's is {}",
                                                    state.optimizer_type, parts_.config.optimizer.type));
  }
  load_state_dict(*optimizer_, checkpoint.at("optimizer").as_dict());
  position_ = state.position;
  const auto rank = static_cast<std::size_t>(parts_.context.rank());
  const bool same_world =
      state.generator_states.size() == static_cast<std::size_t>(parts_.context.world_size());
  if (!same_world || !set_generator_state(device_, state.generator_states[rank])) {
    seed_generators(device_, rank_seed(parts_.config.seed, parts_.context.rank(), position_.step));
  }
}

bool Trainer::is_complete() const {
  const TrainConfig& config = parts_.config;
  return position_.epoch >= config.epochs || (config.max_steps > 0 && position_.step >= config.max_steps);
}

Ending Trainer::run() {
  while (!is_complete()) {
    if (!run_epoch()) return stop();
  }
  return Ending::kComplete;
}

Ending Trainer::stop() {
  if (!parts_.drain.is_together()) return Ending::kAbandoned;
  save_checkpoint();
  return Ending::kStopped;
}

data::LoaderOptions Trainer::loader_options(std::int64_t batch_size) const {
  data::LoaderOptions options;
  options.batch_size = batch_size;
  options.threads = parts_.config.data.loader_threads;
  options.prefetch_batches = parts_.config.data.prefetch_batches;
  options.pinned = device_.is_cuda();
  return options;
}

bool Trainer::run_epoch() {
  sampler_.set_epoch(position_.epoch);
  // With another world size than the checkpoint's, fewer than world_size samples may come twice.
  sampler_.start_at(position_.samples_seen / parts_.context.world_size());
  data::BatchLoader loader(parts_.data.train, sampler_.indices(), loader_options(parts_.config.batch_size));
  model_->train();
  const TimePoint start = parts_.clock.now();
  std::int64_t images = 0;
  while (const std::optional<data::Batch> batch = loader.next()) {
    train_step(*batch);
    const std::int64_t count = batch->labels.numel() * parts_.context.world_size();
    images += count;
    position_.samples_seen += count;
    after_step();
    const double seconds = to_seconds(parts_.clock.now() - start);
    if (parts_.console.wants_progress()) show_progress(seconds, images);
    if (is_complete()) break;
    if (parts_.drain.requested(parts_.context)) return false;
  }
  if (position_.samples_seen >= sampler_.samples_per_rank() * parts_.context.world_size()) {
    ++position_.epoch;
    position_.samples_seen = 0;
  }
  end_epoch(to_seconds(parts_.clock.now() - start), images);
  return true;
}

void Trainer::train_step(const data::Batch& batch) {
  const at::Tensor images = batch.images.to(device_, /*non_blocking=*/true);
  const at::Tensor labels = batch.labels.to(device_, /*non_blocking=*/true);
  const double factor = learning_rate_factor(parts_.config.schedule, length_, position_.step);
  optimizer_->set_learning_rate(parts_.config.optimizer.learning_rate * factor);
  optimizer_->zero_grad();
  const at::Tensor loss = at::cross_entropy_loss(ddp_->forward(images), labels);
  loss.backward();
  optimizer_->step();
  ++position_.step;
  const double count = static_cast<double>(labels.numel());
  fresh_loss_[0].add_(loss.detach().to(at::kDouble), count);
  fresh_loss_[1].add_(count);
}

void Trainer::after_step() {
  const TrainConfig& config = parts_.config;
  if (divergence_check_) divergence_check_->after_step(position_.step);
  if (position_.step % config.log.every_steps == 0) {
    const LossSum before = position_.epoch_loss;
    collect_loss();
    const LossSum& now = position_.epoch_loss;
    parts_.metrics.write(
        "step",
        {{"step", position_.step},
         {"epoch", position_.epoch + 1},
         {"loss", mean_or_zero(now.loss - before.loss, static_cast<double>(now.samples - before.samples))},
         {"learning_rate", optimizer_->learning_rate()}});
  }
  const std::int64_t every = config.checkpoint.every_steps;
  const bool is_last_of_epoch =
      position_.samples_seen >= sampler_.samples_per_rank() * parts_.context.world_size();
  if (every > 0 && position_.step % every == 0 && !is_last_of_epoch && !is_complete()) save_checkpoint();
}

void Trainer::collect_loss() {
  const at::Tensor fresh = fresh_loss_.cpu();
  const LossSum mine{fresh[0].item<double>(), std::llround(fresh[1].item<double>())};
  const LossSum all = sum_over_ranks(parts_.context, mine);
  position_.epoch_loss.loss += all.loss;
  position_.epoch_loss.samples += all.samples;
  fresh_loss_.zero_();
}

bool Trainer::wants_evaluation() const {
  const std::int64_t every = parts_.config.eval_every_epochs;
  return is_complete() || (every > 0 && position_.epoch % every == 0);
}

bool Trainer::wants_checkpoint() const {
  const std::int64_t every = parts_.config.checkpoint.every_epochs;
  return is_complete() || (every > 0 && position_.epoch % every == 0);
}

void Trainer::end_epoch(double seconds, std::int64_t images) {
  collect_loss();
  parts_.console.clear_progress();
  const bool is_whole = position_.samples_seen == 0;
  const std::int64_t number = is_whole ? position_.epoch : position_.epoch + 1;
  const double rate = mean_or_zero(static_cast<double>(images), seconds);
  const LossSum train_loss = position_.epoch_loss;
  std::string line = fmt::format("epoch {}/{}  loss {:.4f}", number, parts_.config.epochs, train_loss.mean());
  nlohmann::json record{{"epoch", number},           {"step", position_.step},
                        {"loss", train_loss.mean()}, {"images_per_second", rate},
                        {"seconds", seconds},        {"learning_rate", optimizer_->learning_rate()}};
  if (is_whole) position_.epoch_loss = {};
  if (wants_evaluation()) {
    EvaluateOptions options{device_, loader_options(parts_.config.eval_batch_size),
                            [this] { parts_.drain.progress(); }};
    ddp_->sync_buffers();  // evaluate() calls the bare model
    position_.evaluation = evaluate(*model_, parts_.data.held_out, parts_.context, options);
    line += fmt::format("  accuracy {:.2f} %", 100 * position_.evaluation->accuracy());
    record["accuracy"] = position_.evaluation->accuracy();
    record["held_out_loss"] = position_.evaluation->loss.mean();
  }
  line += fmt::format("  {} images/s  {:.1f} s", with_thousands(std::llround(rate)), seconds);
  if (wants_checkpoint()) save_checkpoint();
  // Only now: an epoch that a person has seen finished is not lost any more.
  parts_.console.line(line);
  parts_.metrics.write("epoch", record);
}

void Trainer::save_checkpoint() {
  // What is resumed from was equal on all ranks when it was written.
  if (divergence_check_ && divergence_check_->last_equal_step() != position_.step)
    divergence_check_->compare(position_.step);
  collect_loss();
  JobState state;
  state.position = position_;
  state.model_type = parts_.config.model.type;
  state.optimizer_type = parts_.config.optimizer.type;
  state.config = parts_.config_text;
  state.generator_states = all_gather_bytes(parts_.context, generator_state(device_));
  if (parts_.context.rank() != 0) return;
  parts_.drain.take_time();
  checkpoint_path_ =
      checkpoints_.save(position_.step, make_checkpoint(state, state_dict(*model_), state_dict(*optimizer_)));
  parts_.metrics.write("checkpoint", {{"step", position_.step}, {"path", checkpoint_path_}});
  parts_.drain.progress();
}

void Trainer::show_progress(double seconds, std::int64_t images) {
  const at::Tensor fresh = fresh_loss_.cpu();
  const LossSum so_far{position_.epoch_loss.loss + fresh[0].item<double>(),
                       position_.epoch_loss.samples + std::llround(fresh[1].item<double>())};
  Progress progress;
  progress.epoch = position_.epoch + 1;
  progress.epochs = parts_.config.epochs;
  progress.step = position_.samples_seen / (parts_.config.batch_size * parts_.context.world_size());
  progress.steps = length_.steps_per_epoch;
  progress.loss = so_far.mean();
  progress.images_per_second = mean_or_zero(static_cast<double>(images), seconds);
  parts_.console.progress(progress);
}

}  // namespace ddprun::training
