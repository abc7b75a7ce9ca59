// What the trainer saves, and goes back to.
#include "worker/runtime/checkpoint/best_checkpoints.h"
#include "worker/training/trainer.h"
#include <ddprun/collectives.h>
#include <ddprun/fail_together.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ddprun::training {
namespace {

// Of a rank's own, beside its saved parts.
constexpr const char* kFreshLosses = "fresh_losses";
constexpr const char* kNonFinite = "non_finite";

constexpr const char* kBuckets = "buckets";

/// Whether the order of gradients that a checkpoint has is of buckets as large as the job's.
bool has_these_buckets(const AboutJob& about, const Options& job) {
  const nlohmann::json::json_pointer cap("/ddp/bucket_cap_mb");
  const auto cap_of = [&](const std::string& text) {
    const nlohmann::json config = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    return config.contains(cap) ? config[cap] : nlohmann::json();
  };
  const nlohmann::json theirs = cap_of(about.config);
  return theirs.is_null() || theirs == cap_of(job.to_json());
}

/// load_parts(), but that buckets of another size begin anew.
std::vector<std::string> load_fitting(const PtDict& checkpoint, const SavedParts& parts, const Options& job) {
  if (has_these_buckets(read_about(checkpoint), job)) return load_parts(checkpoint, parts);
  PtDict others = checkpoint;
  std::erase_if(others.entries, [](const auto& entry) { return entry.first.as_string() == kBuckets; });
  std::vector<std::string> anew = load_parts(others, parts);
  std::replace(anew.begin(), anew.end(), std::string(kBuckets),
               std::string("buckets of this /ddp/bucket_cap_mb"));
  return anew;
}

}  // namespace

Ending Trainer::stop() {
  if (!parts_.drain.is_together()) return Ending::kAbandoned;
  save_checkpoint({.is_last = true});
  flush_checkpoints(/*are_last=*/true);
  return Ending::kStopped;
}

void Trainer::roll_back(const std::string& what) {
  const Position before = position_;
  if (before.rollbacks >= options_.max_rollbacks) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}, and the job has gone back {} time{} before (/train/max_rollbacks); a smaller "
                    "/optimizer/learning_rate, a bound on /train/clip_grad_norm, or a look at these "
                    "samples may help",
                    what, before.rollbacks, before.rollbacks == 1 ? "" : "s"));
  }
  flush_checkpoints();
  std::optional<ResumePoint> checkpoint;
  try {
    checkpoint = parts_.newest_checkpoint();
  } catch (const Exception& exception) {
    if (exception.code() != ErrorCode::kConfig) throw;
    throw Exception(ErrorCode::kConfig, fmt::format("{}, and {}", what, exception.what()));
  }
  if (!checkpoint) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("{}, and there is no checkpoint yet to go back to; /checkpoint/every_steps writes "
                    "one earlier, and a smaller /optimizer/learning_rate may help",
                    what));
  }
  forget_memory();  // of steps that the job leaves
  take_over(checkpoint->content);
  const bool is_of_this_epoch = position_.epoch == before.epoch;
  // What the step that broke has seen is added by who called it.
  position_.epoch = before.epoch;
  position_.samples_seen = before.samples_seen;
  if (!is_of_this_epoch) position_.epoch_loss = {};
  position_.rollbacks = before.rollbacks + 1;
  position_.world = world_;
  position_.train_samples = parts_.data.train->size();
  fresh_losses_.forget();
  tell<RollbackEvent>(&Observer::on_rollback, {.position = position_,
                                               .broken_step = before.step + 1,
                                               .what = what,
                                               .path = checkpoint->path,
                                               .most = options_.max_rollbacks});
}

std::optional<double> Trainer::value_to_keep() {
  if (options_.keep_best == 0) return std::nullopt;
  const double value = last_value(position_, options_.best_by).value();
  // The folder is rank 0's, and what is being written counts.
  parts_.drain.take_time();
  bool is_wanted = false;
  if (parts_.context.rank() == 0) {
    checkpointer_.drain();
    try {
      is_wanted = checkpointer_.is_among_best(position_.step, value);
    } catch (const Exception& exception) {  // the folder cannot be read
      if (!options_.outlives_write_errors) throw;
      tell_not_saved(position_.step, exception);
    }
  }
  if (broadcast_bytes(parts_.context, is_wanted ? "yes" : "").empty()) return std::nullopt;
  return value;
}

CheckpointerOptions Trainer::checkpointer_options() {
  CheckpointerOptions options{.folder = options_.checkpoint_folder,
                              .keep = options_.keep,
                              .keep_best = options_.keep_best,
                              .best_by = best_by_.name,
                              .higher_is_better = best_by_.better == Metric::Better::kHigher,
                              .on_saved = [this](const SavedCheckpoint& saved) { tell_saved(saved); }};
  if (options_.outlives_write_errors) {
    options.on_failed = [this](std::int64_t step, const Exception& why) { tell_not_saved(step, why); };
  }
  return options;
}

std::string Trainer::other_best_in_words() const {
  return runtime::BestCheckpoints(options_.checkpoint_folder, options_.keep_best, best_by_).others_in_words();
}

std::string Trainer::best_path() const {
  if (parts_.context.rank() != 0 || options_.keep_best == 0) return {};
  try {
    const std::vector<std::string> best = checkpointer_.best();
    return best.empty() ? std::string() : best.front();
  } catch (const Exception&) {
    return {};  // all is done, and a folder that cannot be read is no failure any more
  }
}

void Trainer::save_checkpoint(const SaveAs& as) {
  const auto time = time_.on(Activity::kCheckpoint);
  // Where the disk is slower than the steps, all ranks wait in the next collective, and none of them is stuck.
  parts_.drain.take_time();
  if (parts_.context.rank() == 0 && !as.is_last) checkpointer_.wait_for_room();
  // What is resumed from was equal on all ranks when it was written.
  if (divergence_check_ && divergence_check_->last_equal_step() != position_.step) {
    sync_buffers_for_check();
    divergence_check_->compare(position_.step);
  }
  // What is written is rank 0's, and running statistics are each rank's own.
  std::string name = parts_.context.rank() == 0 ? learner_.first_non_finite() : std::string();
  if (collect_loss(!name.empty())) {
    name = broadcast_bytes(parts_.context, name);
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{} holds something else than finite numbers after step {}, so no checkpoint "
                                "is written; a smaller /optimizer/learning_rate, a bound on "
                                "/train/clip_grad_norm, or a look at the data may help",
                                name, position_.step));
  }
  const PtDict checkpoint = make_checkpoint(about_, saved_);
  if (parts_.context.rank() == 0) being_saved_.add(position_);
  checkpointer_.save(position_.step, checkpoint, as);
  parts_.drain.progress();
}

void Trainer::restore(const PtDict& checkpoint) {
  const AboutJob about = read_about(checkpoint);
  const std::string optimizer = parts_.job.object("optimizer").text("type");
  if (about.optimizer != optimizer) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("its optimizer is {}, the job file's is {}", about.optimizer, optimizer));
  }
  parts_that_begin_anew_ = take_over(checkpoint);
}

std::vector<std::string> Trainer::take_over(const PtDict& checkpoint) {
  std::vector<std::string> anew = load_fitting(checkpoint, saved_, parts_.job);
  if (std::count(anew.begin(), anew.end(), "ema") > 0) learner_.begin_average();
  std::erase(anew, "data");  // an older checkpoint does not tell
  // Of a job whose ranks all had rank 0's.
  if (std::erase(anew, "rank_buffers") > 0) learner_.spread_buffers();
  learner_.note_non_finite();
  // The numbers of another task say nothing about this one.
  const std::vector<Metric> metrics = learner_.task().metrics();
  const auto& last = position_.evaluation;
  if (last && !std::equal(metrics.begin(), metrics.end(), last->sums.begin(), last->sums.end(),
                          [](const Metric& metric, const auto& sum) { return metric.name == sum.first; }))
    position_.evaluation.reset();
  if (!position_.evaluation) position_.more_evaluations.clear();
  if (position_.plateau.metric != early_stopping_.metric.name) position_.plateau = {};
  return anew;
}

void Trainer::restore(const RankState& state) {
  load_rank_state(state, saved_);
  learner_.take_non_finite(state.own.at(kNonFinite));
  fresh_losses_.load(state.own.at(kFreshLosses).as_dict());
}

void Trainer::keep_if_there_is_memory(const std::function<void()>& keep) const {
  try {
    keep();
  } catch (const Exception& exception) {
    std::fputs(
        fmt::format("ddprun: rank {} keeps nothing in memory any more (/checkpoint/memory_every_steps): {}\n",
                    parts_.context.rank(), exception.what())
            .c_str(),
        stderr);
  }
}

PtDict Trainer::own_half() const {
  PtDict own = make_own_state(saved_);
  own.set(kFreshLosses, fresh_losses_.state());
  own.set(kNonFinite, learner_.non_finite_from_start());
  return own;
}

void Trainer::keep_in_memory() {
  const auto time = time_.on(Activity::kCheckpoint);
  const RankState state{.common = make_common_state(about_, saved_), .own = own_half()};
  keep_if_there_is_memory([&] { parts_.memory->save(position_.step, parts_.timeline, state); });
  // Each rank keeps a share: what has drifted apart, also since it was compared, would be one again.
  if (divergence_check_) {
    sync_buffers_for_check();
    divergence_check_->compare(position_.step);
  }
  parts_.memory->confirm();
}

StepHooks Trainer::hooks_of_memory() {
  if (!keeps_in_place()) return {};
  return {.before_last_backward =
              [this](const StepOutcome& outcome) {
                fresh_losses_.add(outcome.loss_and_items);
                keep_own_half(position_.step + 1);
              },
          .before_update = [this] { before_update(); }};
}

void Trainer::before_update() {
  learner_.settle_buckets();  // while all ranks still have the half that they have in common
  parts_.drain.take_time();   // in the first step, too, SIGTERM is to find the update ended
  parts_.memory->begin_update();
}

void Trainer::keep_own_half(std::int64_t step) {
  const auto time = time_.on(Activity::kCheckpoint);
  keep_if_there_is_memory([&] { parts_.memory->save_own(step, parts_.timeline, own_half()); });
}

void Trainer::keep_common_half() {
  const auto time = time_.on(Activity::kCheckpoint);
  PtDict common = make_common_state(about_, saved_);
  keep_if_there_is_memory([&] {
    parts_.memory->save_common(position_.step, parts_.timeline, std::move(common), learner_.updated());
  });
  parts_.drain.progress();
}

void Trainer::forget_memory() {
  if (parts_.memory != nullptr) parts_.memory->forget();
}

void Trainer::flush_checkpoints(bool are_last) {
  const auto time = time_.on(Activity::kCheckpoint);
  parts_.drain.take_time();
  checkpointer_.flush();
  if (are_last && options_.outlives_write_errors) {
    fail_together(parts_.context, [this] {
      if (last_trouble_) throw Exception(ErrorCode::kOs, *last_trouble_);
    });
  }
  parts_.drain.progress();
}

void Trainer::tell_saved(const SavedCheckpoint& saved) {
  const Position& position = being_saved_.saved(saved.step);
  if (!saved.is_best) checkpoint_path_ = saved.path;
  last_trouble_.reset();
  tell<CheckpointEvent>(
      &Observer::on_checkpoint,
      {.position = position, .path = saved.path, .seconds = saved.seconds, .is_best = saved.is_best});
}

void Trainer::tell_not_saved(std::int64_t step, const Exception& why) {
  being_saved_.failed(step);
  const std::string words = why.what();
  last_trouble_ = words;
  tell<CheckpointFailureEvent>(&Observer::on_checkpoint_failure, {.step = step, .why = words});
}

}  // namespace ddprun::training
