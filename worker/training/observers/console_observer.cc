#include "worker/training/observers/console_observer.h"

#include "rendezvous/base/proc_stat.h"
#include "worker/training/observers/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::training {

std::string metrics_in_words(const std::vector<Metric>& metrics, const Evaluation& evaluation,
                             const std::string& name) {
  const std::string prefix = name.empty() ? "" : name + "/";
  std::vector<std::string> words;
  for (std::size_t i = 1; i < metrics.size(); ++i) {
    const double mean = evaluation.mean(i);
    words.push_back(metrics[i].is_share ? fmt::format("{}{} {:.2f} %", prefix, metrics[i].name, 100 * mean)
                                        : fmt::format("{}{} {}", prefix, metrics[i].name, human_loss(mean)));
  }
  if (words.empty())
    words.push_back((name.empty() ? "held-out loss " : prefix + "loss ") + human_loss(evaluation.mean(0)));
  return fmt::format("{}", fmt::join(words, "  "));
}

std::string early_stop_in_words(const std::vector<Metric>& metrics, const Plateau& plateau) {
  if (!plateau.best)
    return fmt::format("stopped early: {} of {} evaluations was no finite number", plateau.metric,
                       plateau.evaluations);
  const auto metric = std::find_if(metrics.begin(), metrics.end(),
                                   [&](const Metric& other) { return other.name == plateau.metric; });
  const bool is_share = metric != metrics.end() && metric->is_share;
  return fmt::format(
      "stopped early: {} was best after epoch {}, at {}, and {} evaluation{} since brought nothing "
      "better (/early_stopping)",
      plateau.metric == "loss" ? "the held-out loss" : plateau.metric, plateau.best_epoch,
      is_share ? fmt::format("{:.2f} %", 100 * *plateau.best) : human_loss(*plateau.best),
      plateau.evaluations, plateau.evaluations == 1 ? "" : "s");
}

std::string setting_to_train_on(const Position& position, const JobLength& length) {
  const std::string more_steps = fmt::format("/train/max_steps={}", 2 * position.step);
  const bool has_all_steps = length.max_steps > 0 && position.step >= length.max_steps;
  if (position.epoch >= length.epochs)
    return fmt::format("/train/epochs={}{}", 2 * position.epoch,
                       has_all_steps ? " --set " + more_steps : std::string());
  if (has_all_steps) return more_steps;
  return fmt::format("/early_stopping/patience={}",
                     2 * std::max(length.patience, position.plateau.evaluations));
}

ConsoleObserver::ConsoleObserver(Console& console, Facts facts)
    : console_(console), facts_(std::move(facts)) {}

void ConsoleObserver::on_start(const StartEvent& event) {
  metrics_ = event.metrics;
  length_ = event.length;
  unit_ = event.data.unit;
  units_per_sample_ = event.data.units_per_sample;
  held_out_units_ = event.held_out_samples * event.data.units_per_sample;
  const std::int64_t train_units = event.train_samples * event.data.units_per_sample;
  const std::int64_t ranks = event.world.ranks;
  const std::string where =
      facts_.are_virtual ? fmt::format(" in {} process{}", event.processes, event.processes == 1 ? "" : "es")
                         : "";
  console_.line(fmt::format("{} on {} training {}, {} {}rank{}{} of batch {} on {}", facts_.model,
                            with_thousands(train_units), unit_for(train_units, unit_), ranks,
                            facts_.are_virtual ? "virtual " : "", ranks == 1 ? "" : "s", where,
                            facts_.batch_size, facts_.device));
  if (!facts_.backend_line.empty()) console_.line(facts_.backend_line);
  if (!event.resumed_from) return;
  say_resumed(event);
  if (is_complete(event.position, event.length)) say_already_complete(event);
}

void ConsoleObserver::say_resumed(const StartEvent& event) {
  const Position& position = event.position;
  console_.line(fmt::format("resumed from {}: {} done, step {}", shown(*event.resumed_from),
                            epochs_in_words(position.epoch, length_.epochs), position.step));
  if (position.world != event.world) {
    console_.line(
        fmt::format("the world has changed: {} ranks and a global batch of {} before, {} and {} now; "
                    "the learning rate goes on by samples seen",
                    position.world.ranks, with_thousands(position.world.global_batch), event.world.ranks,
                    with_thousands(event.world.global_batch)));
  }
  if (position.train_samples > 0 && position.train_samples != event.train_samples) {
    console_.line(fmt::format("the training data has changed: {} samples before, {} now",
                              with_thousands(position.train_samples), with_thousands(event.train_samples)));
  }
  if (!event.parts_that_begin_anew.empty()) {
    console_.line(fmt::format("not in the checkpoint, so it begins anew: {}",
                              fmt::join(event.parts_that_begin_anew, ", ")));
  }
  if (!event.other_best.empty()) console_.line(event.other_best);
}

void ConsoleObserver::say_already_complete(const StartEvent& event) {
  const Position& position = event.position;
  std::string line = fmt::format("training is complete: {}, step {}",
                                 epochs_in_words(position.epoch, length_.epochs), position.step);
  if (position.evaluation) line += ", " + metrics_in_words(metrics_, *position.evaluation);
  console_.line(line);
  if (is_stopped_early(position, length_)) console_.line(early_stop_in_words(metrics_, position.plateau));
  console_.line("  to train on    --set " + setting_to_train_on(position, length_));
  console_.line("  to start anew  --set /resume=never");
  console_.line("  checkpoint     " + shown(*event.resumed_from));
}

void ConsoleObserver::on_step(const StepEvent& event) {
  if (!console_.wants_progress()) return;
  LiveLine live;
  live.epoch = event.position.epoch + 1;
  live.epochs = length_.epochs;
  live.steps = event.steps_per_epoch;
  live.step = event.position.samples_seen * live.steps / length_.epoch_samples;
  live.loss = event.loss_so_far();
  live.rate = event.seconds > 0 ? static_cast<double>(event.units) / event.seconds : 0;
  live.unit = unit_;
  live.learning_rate = event.learning_rate;
  live.memory_bytes = static_cast<std::int64_t>(resident_bytes("/proc/self"));
  live.gpu_bytes = facts_.gpu_bytes ? facts_.gpu_bytes() : 0;
  if (live.rate > 0) {
    const std::int64_t units_left = samples_left(event.position, length_) * units_per_sample_;
    live.seconds_left = static_cast<double>(units_left) / live.rate;
  }
  console_.progress(live);
}

void ConsoleObserver::on_checkpoint_failure(const CheckpointFailureEvent& event) {
  console_.warning(
      fmt::format("no checkpoint of step {}: {}; the training goes on without it", event.step, event.why));
}

void ConsoleObserver::on_rollback(const RollbackEvent& event) {
  console_.warning(
      fmt::format("{}; rollback {} of {}: weights of {} (step {}), and on after that step's samples",
                  event.what, event.position.rollbacks, event.most, shown(event.path), event.position.step));
}

void ConsoleObserver::on_recording(const RecordingEvent& event) {
  console_.line(
      fmt::format("forward and backward are recorded at step {}, and replayed from there on", event.step));
}

void ConsoleObserver::on_epoch(const EpochEvent& event) {
  std::string line =
      fmt::format("epoch {}/{}  loss {}", event.number, length_.epochs, human_loss(event.train_loss.mean()));
  if (event.evaluation != nullptr) {
    line += "  " + metrics_in_words(metrics_, *event.evaluation);
    for (const auto& [name, evaluation] : event.position.more_evaluations)
      line += "  " + metrics_in_words(metrics_, evaluation, name);
  }
  const double rate = event.seconds > 0 ? static_cast<double>(event.units) / event.seconds : 0;
  line += fmt::format("  {} {}/s  {:.1f} s", with_thousands(std::llround(rate)), unit_, event.seconds);
  console_.line(line);
}

void ConsoleObserver::on_end(const EndEvent& event) {
  if (event.ending == Ending::kComplete) {
    say_complete(event);
  } else {
    say_stopped(event);
  }
}

void ConsoleObserver::say_complete(const EndEvent& event) {
  const Position& position = event.position;
  std::string line =
      fmt::format("done: {}, {} steps in {:.1f} s", epochs_in_words(position.epoch, length_.epochs),
                  position.step, event.seconds);
  if (position.evaluation) {
    line += fmt::format(", {} on {} held-out {}", metrics_in_words(metrics_, *position.evaluation),
                        with_thousands(held_out_units_), unit_for(held_out_units_, unit_));
    for (const auto& [name, evaluation] : position.more_evaluations)
      line += ", " + metrics_in_words(metrics_, evaluation, name);
  }
  console_.line(line);
  if (is_stopped_early(position, length_)) console_.line(early_stop_in_words(metrics_, position.plateau));
  console_.line("  checkpoint  " + shown(event.checkpoint_path));
  if (!event.best_path.empty()) console_.line("  best        " + shown(event.best_path));
  const std::int64_t lost_records = facts_.lost_records();
  const std::string lost =
      lost_records == 0 ? "" : fmt::format(" ({} records could not be written)", lost_records);
  console_.line("  metrics     " + shown(facts_.metrics_path) + lost);
  if (!facts_.report_path.empty()) {
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(facts_.report_path, error);
    console_.line("  report      " + (is_folder ? "not written: " + shown(facts_.report_path) + " is a folder"
                                                : shown(facts_.report_path)));
  }
  console_.line("  job file    " + shown(facts_.output_dir + "/job.json"));
}

void ConsoleObserver::say_stopped(const EndEvent& event) {
  const std::int64_t step = event.position.step;
  const char* const signal = event.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (event.ending == Ending::kAbandoned) {
    console_.warning(fmt::format(
        "stopped by {} after step {} without a checkpoint: not all ranks got the signal", signal, step));
    return;
  }
  const std::string how = facts_.resume != "never" ? "the same command goes on"
                                                   : "the same command with --set /resume=auto goes on";
  console_.line(fmt::format("stopped by {} after step {}; {} from {}", signal, step, how,
                            shown(event.checkpoint_path)));
}

std::string ConsoleObserver::shown(const std::string& path) const {
  return shown_path(path, facts_.working_directory);
}

}  // namespace ddprun::training
