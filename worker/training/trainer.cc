#include "worker/training/trainer.h"

#include "worker/data/damage.h"
#include "worker/tasks/sample_text.h"
#include "worker/training/batches/device_batches.h"
#include "worker/training/batches/training_batches.h"
#include "worker/training/evaluate.h"
#include "worker/training/parts/data_meaning.h"
#include "worker/training/parts/plugins.h"
#include "worker/training/ranks/generators_part.h"
#include "worker/training/ranks/rank_sums.h"
#include "worker/training/state/rng.h"
#include <ddprun/collectives.h>
#include <ddprun/module_view.h>
#include <ddprun/progress.h>
#include <ddprun/sharded_evaluation.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>

namespace ddprun::training {
namespace {

constexpr std::size_t kShownIndices = 8;

bool normalizes_batches(const Model& model) {
  const std::vector<NamedTensor> buffers = view_of(model).buffers();
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const NamedTensor& buffer) { return buffer.first.ends_with("running_var"); });
}

std::string list_of(std::span<const std::int64_t> indices) {
  const auto shown = indices.first(std::min(kShownIndices, indices.size()));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "),
      indices.size() > shown.size() ? fmt::format(" and {} more", indices.size() - shown.size()) : "");
}

}  // namespace

Trainer::Trainer(TrainerParts parts, Draft draft)
    : parts_(parts),
      options_(read_loop_options(parts.job)),
      batches_(training_batches(parts.job, parts.data.train)),
      device_(parts.context.device()),
      lane_(make_copy_lane(device_)),
      block_(rank_block(parts.job, parts.context)),
      time_(parts.clock),
      learner_(parts.context, parts.job, parts.parts, parts.data.train->shape(), std::move(draft), time_),
      best_by_(metric_named(options_.best_by, "/checkpoint/best_by")),
      checkpointer_(parts.context, checkpointer_options()),
      early_stopping_{.patience = options_.patience,
                      .metric = metric_named(options_.patience_metric, "/early_stopping/metric"),
                      .min_delta = options_.min_delta},
      size_(size_of_job(options_, parts.data.train->size(), block_.ranks)),
      world_(size_.world),
      length_(size_.length),
      fresh_losses_(block_, device_) {
  if (parts.job.object("log").integer("sample_tokens") > 0)
    tasks::check_has_text(parts.data.train->shape(), "/log/sample_tokens");
  position_.world = world_;
  position_.train_samples = parts_.data.train->size();
  about_ = {.model = parts_.job.object("model").text("type"),
            .optimizer = parts_.job.object("optimizer").text("type"),
            .config = parts_.job.to_json(),
            .timeline = parts_.timeline};
  learner_.add_saved_parts(saved_);
  saved_.push_back(position_part(position_));
  saved_.push_back(meaning_part(parts_.data.train->shape()));
  saved_.push_back(generators_part(parts_.context, block_, learner_.generators(), [this](int rank) {
    return rank_seed(options_.seed, rank, position_.step);
  }));
  if (options_.divergence_check > 0) {
    DivergenceCheckOptions check{.every_steps = options_.divergence_check};
    if (!options_.broadcast_buffers) {
      for (const auto& buffer : learner_.model().named_buffers()) check.ignored.push_back(buffer.key());
    }
    divergence_check_.emplace(parts_.context, learner_.model(), learner_.optimizer(), check);
  }
}

Metric Trainer::metric_named(const std::string& name, const std::string& key) const {
  std::vector<std::string> names;
  std::vector<Metric> metrics = learner_.task().metrics();
  for (Metric& metric : metrics_of(learner_.task().metrics(), parts_.judging))
    metrics.push_back(std::move(metric));
  for (const Metric& metric : metrics) {
    if (metric.name == name) return metric;
    names.push_back(metric.name);
  }
  throw Exception(ErrorCode::kConfig, fmt::format("{}: an evaluation finds no \"{}\"; it finds {}", key, name,
                                                  fmt::join(names, ", ")));
}

void Trainer::check() const {
  // A restart may be one in a smaller world, whose steps end the job at an earlier epoch.
  if (parts_.context.restart_count() > 0) return;
  Position position = position_;
  position.world = world_;
  check_schedule(options_.warmup_steps, position, size_);
}

void Trainer::start(const std::optional<std::string>& resumed_from) {
  tell<StartEvent>(
      &Observer::on_start,
      {.position = position_,
       .length = length_,
       .data = parts_.data.train->shape(),
       .metrics = learner_.task().metrics(),
       .more_metrics = metrics_of(learner_.task().metrics(), parts_.judging),
       .train_samples = parts_.data.train->size(),
       .held_out_samples = parts_.data.held_out->size(),
       .steps_per_epoch = steps_per_epoch(),
       .world = world_,
       .processes = parts_.context.world_size(),
       .resumed_from = resumed_from,
       .parts_that_begin_anew = parts_that_begin_anew_,
       .other_best = resumed_from && parts_.context.rank() == 0 ? other_best_in_words() : std::string()});
}

Ending Trainer::run() {
  try {
    return run_to_end();
  } catch (const Exception& exception) {
    // What is kept may hold what is not finite, as nothing that comes to the disk does.
    if (exception.code() == ErrorCode::kConfig) forget_memory();
    throw;
  }
}

Ending Trainer::run_to_end() {
  const TimePoint start = parts_.clock.now();
  if (parts_.newest_on_disk) {
    if (keeps_in_place()) {
      const RankState state{.common = make_common_state(about_, saved_), .own = own_half()};
      keep_if_there_is_memory([&] { parts_.memory->save_found(parts_.timeline, state); });
      tell_step(0, 0);  // what is kept in place is of before it is told, perhaps for the second time
    }
    // The process that was writing the last one may have been killed.
    if (!is_complete() &&
        std::max<std::int64_t>(*parts_.newest_on_disk, 0) < last_due_checkpoint(options_, position_, size_))
      save_checkpoint();
  }
  if (keeps_in_place()) parts_.memory->watch(learner_.updated());
  if (parts_.trace != nullptr) parts_.trace->on_start(position_.step);
  const Ending ending = train();
  if (parts_.trace != nullptr) {
    parts_.drain.take_time();
    parts_.trace->on_end(position_.step);
  }
  const double seconds = to_seconds(parts_.clock.now() - start);
  // After SIGTERM the ranks may not wait for each other again.
  std::vector<std::vector<double>> times;
  if (ending == Ending::kComplete) times = times_of_ranks(parts_.context, time_.seconds(), seconds);
  tell<EndEvent>(&Observer::on_end, {.ending = ending,
                                     .position = position_,
                                     .seconds = seconds,
                                     .times_of_ranks = times,
                                     .checkpoint_path = checkpoint_path_,
                                     .best_path = best_path(),
                                     .signal = parts_.drain.signal()});
  return ending;
}

Ending Trainer::train() {
  if (is_complete() && has_work()) end_epoch(0, 0);
  while (!is_complete()) {
    if (!run_epoch()) return stop();
  }
  return Ending::kComplete;
}

data::LoaderOptions Trainer::loader_options(std::int64_t batch_size) const {
  data::LoaderOptions options;
  options.batch_size = batch_size;
  options.threads = options_.loader_threads;
  options.prefetch_batches = options_.prefetch_batches;
  options.pinned = device_.is_cuda();
  options.seed = options_.seed;
  options.epoch = position_.epoch;
  return options;
}

std::int64_t Trainer::steps_per_epoch() const { return size_.steps_per_epoch; }

EpochRest Trainer::rest_of_epoch() {
  if (is_epoch_over(position_, length_)) return {};
  EpochDeal deal{.samples = parts_.data.train->size(),
                 .sampler = sampler_options(options_, block_.ranks, block_.first),
                 .epoch = position_.epoch,
                 .seen = position_.samples_seen,
                 .batch_size = options_.batch_size,
                 .drops_last_batch = options_.drop_last_batch,
                 .is_of_another_world = position_.samples_seen > 0 && position_.world.ranks != world_.ranks};
  if (normalizes_batches(learner_.model())) {
    // Of one sample it does not learn, and smaller batches cannot be dealt out without one.
    deal.is_of_another_world = deal.is_of_another_world && options_.batch_size >= 4;
    deal.least = 2;
  }
  return {block_, deal};
}

bool Trainer::run_epoch() {
  const EpochRest rest = rest_of_epoch();
  // The rest of an epoch that another world began may be too small to be dealt out (/train/drop_last).
  if (rest.batch_count() == 0)
    position_.samples_seen = std::max(position_.samples_seen, length_.epoch_samples);
  // One loader for all ranks of this process, in the order of their turns.
  DeviceBatches batches(*batches_, rest.batches(options_.accumulation), loader_options(options_.batch_size),
                        device_, lane_.get());
  learner_.model().train();
  TimePoint start = parts_.clock.now();
  std::int64_t units = 0;
  std::int64_t used = 0;  // batches of a rank
  while (used < rest.batch_count()) {
    MicroBatches micro_batches{.count = std::min(rest.batch_count() - used, options_.accumulation),
                               .next = [&] {
                                 const auto time = time_.on(Activity::kLoader);
                                 return *batches.next();
                               }};
    if (used == 0) micro_batches.weights = rest.weights_of_first(micro_batches.count);
    const std::int64_t samples = rest.samples_of(used, micro_batches.count);
    begin_traced_step();
    const bool is_kept = step(micro_batches, rest.of_batches(used, micro_batches.count));
    if (lane_) {
      const auto time = time_.on(Activity::kLoader);
      batches.prefetch();
    }
    used += micro_batches.count;
    position_.samples_seen += samples;
    if (used == rest.batch_count())
      position_.samples_seen = std::max(position_.samples_seen, length_.epoch_samples);
    if (is_kept) {
      units += samples * parts_.data.train->shape().units_per_sample;
      after_step(to_seconds(parts_.clock.now() - start), units);
    } else {
      start = parts_.clock.now();
      units = 0;
      save_checkpoint();  // the next start is to go on from here, and to know how often the job went back
      learner_.model().train();
    }
    end_traced_step();
    if (is_complete()) break;
    if (parts_.drain.requested(parts_.context)) return false;
  }
  end_epoch(to_seconds(parts_.clock.now() - start), units);
  return true;
}

bool Trainer::step(const MicroBatches& micro_batches, const Samples& samples) {
  const bool was_recorded = learner_.is_recorded();
  const StepOutcome outcome =
      learner_.step(micro_batches, progress_of(position_, length_), length_, hooks_of_memory());
  if (learner_.step_options().non_finite == NonFinite::kRollBack) {
    if (const auto what = what_broke(outcome, samples)) {
      roll_back(*what);
      return false;
    }
  } else if (!outcome.is_finite) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("the loss is not a finite number at step {} of epoch {}, on rank {} with the "
                                "training samples {}; {}",
                                position_.step + 1, position_.epoch + 1, block_.rank(outcome.turn),
                                list_of(samples[outcome.turn]), kHowToGoOn));
  }
  ++position_.step;
  note_step(position_.step);
  if (learner_.is_recorded() && !was_recorded)
    tell<RecordingEvent>(&Observer::on_recording, {.step = position_.step});
  position_.world = world_;
  position_.train_samples = parts_.data.train->size();
  if (!keeps_in_place()) fresh_losses_.add(outcome.loss_and_items);  // or within the step
  return true;
}

std::optional<std::string> Trainer::what_broke(const StepOutcome& outcome, const Samples& samples) const {
  if (ddprun::sum_over_ranks(parts_.context, {outcome.is_finite ? 0.0 : 1.0})[0] == 0) return std::nullopt;
  // A gradient is the mean over all ranks, and tells of none.
  const at::Tensor losses = outcome.loss_and_items.select(1, 0).cpu();
  std::string mine;
  for (std::size_t turn = 0; turn < block_.count && mine.empty(); ++turn) {
    if (!std::isfinite(losses[static_cast<std::int64_t>(turn)].item<double>()))
      mine = fmt::format("rank {} with the training samples {}", block_.rank(turn), list_of(samples[turn]));
  }
  const std::vector<std::string> all = all_gather_bytes(parts_.context, mine);
  const auto first =
      std::find_if(all.begin(), all.end(), [](const std::string& words) { return !words.empty(); });
  const std::string where = fmt::format("at step {} of epoch {}", position_.step + 1, position_.epoch + 1);
  if (first == all.end())
    return fmt::format("a gradient is not a finite number {}, though each loss is", where);
  return fmt::format("the loss is not a finite number {}, on {}", where, *first);
}

void Trainer::after_step(double seconds, std::int64_t units) {
  // Before this rank waits for another one again, which may have ended in its update.
  if (keeps_in_place()) keep_common_half();
  if (divergence_check_) {
    // Running statistics are each rank's own after a step, and rank 0's again before the next one.
    if (position_.step % options_.divergence_check == 0) sync_buffers_for_check();
    divergence_check_->after_step(position_.step);
  }
  tell_step(seconds, units);
  checkpointer_.poll();
  // That of an epoch's last step comes after its evaluation.
  if (is_due_by_steps() && !is_epoch_over(position_, length_) && !is_complete()) save_checkpoint();
  if (is_due_in_memory()) keep_in_memory();
}

void Trainer::tell_step(double seconds, std::int64_t units) {
  std::optional<double> loss;
  if (position_.step % options_.log_every_steps == 0) {
    const LossSum before = position_.epoch_loss;
    collect_loss();
    const LossSum& now = position_.epoch_loss;
    loss = LossSum{now.loss - before.loss, now.items - before.items}.mean();
  }
  const std::function<double()> loss_so_far = [this] {
    LossSum sum = position_.epoch_loss;
    for (const LossSum& fresh : fresh_losses_.by_turn()) {
      sum.loss += fresh.loss;
      sum.items += fresh.items;
    }
    return sum.mean();
  };
  tell<StepEvent>(&Observer::on_step, {.position = position_,
                                       .learning_rate = learner_.optimizer().learning_rate(),
                                       .steps_per_epoch = steps_per_epoch(),
                                       .loss = loss,
                                       .loss_so_far = loss_so_far,
                                       .seconds = seconds,
                                       .units = units});
}

bool Trainer::is_due_by_steps() const {
  const std::int64_t every = options_.checkpoint_every_steps;
  return every > 0 && position_.step % every == 0;
}

bool Trainer::is_due_in_memory() const {
  if (parts_.memory == nullptr || keeps_in_place() || is_complete()) return false;
  if (divergence_check_ && position_.step % options_.divergence_check != 0) return false;
  return position_.step % options_.memory_every_steps == 0;
}

void Trainer::begin_traced_step() {
  if (parts_.trace == nullptr) return;
  parts_.trace->before_step(position_.step + 1);
  time_.watch(parts_.trace->watcher());
}

void Trainer::end_traced_step() {
  if (time_.watcher() == nullptr) return;
  parts_.drain.take_time();
  parts_.trace->after_step();
  parts_.drain.progress();
  time_.watch(parts_.trace->watcher());
}

void Trainer::sync_buffers_for_check() {
  if (options_.broadcast_buffers) learner_.sync_buffers();
}

bool Trainer::collect_loss(bool is_broken) {
  const FreshLosses::Sum sum = fresh_losses_.collect(parts_.context, position_, is_broken);
  position_.epoch_loss.loss += sum.loss.loss;
  position_.epoch_loss.items += sum.loss.items;
  return sum.is_broken;
}

/// Every so many epochs, and at the end of the job. 0: only at the end.
bool Trainer::is_due(std::int64_t every_epochs) const {
  return is_complete() || (every_epochs > 0 && position_.epoch % every_epochs == 0);
}

void Trainer::end_epoch(double seconds, std::int64_t units) {
  if (is_epoch_over(position_, length_)) {
    ++position_.epoch;
    position_.samples_seen = 0;
  }
  collect_loss();
  if (units > 0 && position_.epoch_loss.items == 0) fresh_losses_.refuse_barren_steps(position_);
  const bool is_whole = position_.samples_seen == 0;
  EpochEvent event{.position = position_,
                   .number = is_whole ? position_.epoch : position_.epoch + 1,
                   .train_loss = position_.epoch_loss,
                   .seconds = seconds,
                   .units = units,
                   .learning_rate = learner_.optimizer().learning_rate()};
  if (is_whole) position_.epoch_loss = {};
  std::optional<double> best;
  if (is_due(options_.eval_every_epochs)) {
    evaluate_all();
    event.evaluation = &*position_.evaluation;
    position_.plateau =
        after_evaluation(position_.plateau, early_stopping_,
                         last_value(position_, early_stopping_.metric.name).value(), position_.epoch);
    best = value_to_keep();
  }
  const bool is_due_by_epochs = is_due(options_.checkpoint_every_epochs);
  const bool is_checkpoint_due = is_due_by_epochs || is_due_by_steps();
  if (is_checkpoint_due || best) save_checkpoint({.newest = is_checkpoint_due, .best = best});
  // What is said to be finished is not lost any more.
  if (is_due_by_epochs || best) flush_checkpoints(is_complete());
  tell(&Observer::on_epoch, event);
  say_damaged();
}

// Each rank reads its own share, and says so itself.
void Trainer::say_damaged() {
  std::int64_t count = 0;
  for (const DataSource* source : {parts_.data.train.get(), parts_.data.held_out.get()})
    count += data::left_out_by(*source);
  for (const JudgingData& data : parts_.judging) count += data::left_out_by(*data.source);
  if (count == damaged_files_) return;
  damaged_files_ = count;
  const std::string line = fmt::format("data: {} damaged image{} skipped on rank {} up to step {}\n", count,
                                       count == 1 ? "" : "s", parts_.context.rank(), position_.step);
  std::fputs(line.c_str(), stderr);
}

void Trainer::evaluate_all() {
  const auto time = time_.on(Activity::kEvaluation);
  position_.evaluation = evaluate_on(*parts_.data.held_out, "held_out");
  position_.more_evaluations.clear();
  for (const JudgingData& data : parts_.judging)
    position_.more_evaluations.emplace_back(data.name, evaluate_on(*data.source, data.name));
}

Evaluation Trainer::evaluate_on(const DataSource& source, const std::string& name) {
  const TimePoint start = parts_.clock.now();
  data::LoaderOptions loader = loader_options(options_.eval_batch_size);
  loader.epoch =
      0;  // what is random in held-out samples is the same in each evaluation, and in `ddprun eval`
  const Evaluation evaluation = evaluate(learner_.evaluated(), learner_.task(), source, parts_.context,
                                         {.device = device_,
                                          .loader = loader,
                                          .autocast = autocast_dtype(learner_.step_options().precision),
                                          .after_batch =
                                              [this] {
                                                parts_.drain.progress();
                                                note_progress();
                                              },
                                          .block = block_,
                                          .turn_to = [this](std::size_t turn) { learner_.turn_to(turn); }});
  tell<EvaluationEvent>(&Observer::on_evaluation, {.position = position_,
                                                   .evaluation = evaluation,
                                                   .seconds = to_seconds(parts_.clock.now() - start),
                                                   .name = name});
  return evaluation;
}

}  // namespace ddprun::training
