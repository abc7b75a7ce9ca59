#include "worker/training/state/position.h"

#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ddprun::training {
namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

PtDict to_dict(const Evaluation& evaluation) {
  PtDict sums;
  for (const auto& [name, sum] : evaluation.sums) sums.set(name, sum);
  PtDict dict;
  dict.set("items", evaluation.items);
  dict.set("sums", std::move(sums));
  return dict;
}

Evaluation read_evaluation(const PtDict& dict) {
  Evaluation evaluation;
  evaluation.items = dict.at("items").as_int();
  for (const auto& [key, value] : dict.at("sums").as_dict().entries)
    evaluation.sums.emplace_back(key.as_string(), value.as_double());
  return evaluation;
}

PtDict to_dict(const Plateau& plateau) {
  PtDict dict;
  dict.set("metric", plateau.metric);
  if (plateau.best) dict.set("best", *plateau.best);
  dict.set("best_epoch", plateau.best_epoch);
  dict.set("evaluations", plateau.evaluations);
  return dict;
}

Plateau read_plateau(const PtDict& dict) {
  Plateau plateau;
  plateau.metric = dict.at("metric").as_string();
  if (const PtValue* best = dict.find("best")) plateau.best = best->as_double();
  plateau.best_epoch = dict.at("best_epoch").as_int();
  plateau.evaluations = dict.at("evaluations").as_int();
  return plateau;
}

}  // namespace

namespace {

bool is_planned_end(const Position& position, const JobLength& length) {
  return position.epoch >= length.epochs || (length.max_steps > 0 && position.step >= length.max_steps);
}

}  // namespace

bool is_complete(const Position& position, const JobLength& length) {
  return is_planned_end(position, length) || is_stopped_early(position, length);
}

bool is_stopped_early(const Position& position, const JobLength& length) {
  return !is_planned_end(position, length) && is_patience_over(position.plateau, length.patience);
}

std::optional<double> last_value(const Position& position, const std::string& metric) {
  const auto mean_of = [](const Evaluation& evaluation, std::string_view name) -> std::optional<double> {
    for (std::size_t i = 0; i < evaluation.sums.size(); ++i) {
      if (evaluation.sums[i].first == name) return evaluation.mean(i);
    }
    return std::nullopt;
  };
  if (!position.evaluation) return std::nullopt;
  if (const auto mean = mean_of(*position.evaluation, metric)) return mean;
  for (const auto& [name, evaluation] : position.more_evaluations) {
    if (metric.starts_with(name + "/")) {
      if (const auto mean = mean_of(evaluation, std::string_view(metric).substr(name.size() + 1)))
        return mean;
    }
  }
  return std::nullopt;
}

bool is_epoch_over(const Position& position, const JobLength& length) {
  return position.samples_seen >= length.epoch_samples;
}

Progress progress_of(const Position& position, const JobLength& length) {
  const double epochs =
      static_cast<double>(position.epoch) + ratio(position.samples_seen, length.epoch_samples);
  return {.step = position.step, .epochs = epochs};
}

double share_of(const Progress& progress, const JobLength& length) {
  double share = progress.epochs / static_cast<double>(length.epochs);
  if (length.max_steps > 0) share = std::max(share, ratio(progress.step, length.max_steps));
  return std::min(1.0, share);
}

std::int64_t samples_left(const Position& position, const JobLength& length) {
  std::int64_t left = (length.epochs - position.epoch) * length.epoch_samples - position.samples_seen;
  if (length.max_steps > 0)
    left = std::min(left, (length.max_steps - position.step) * position.world.global_batch);
  return std::max<std::int64_t>(0, left);
}

PtDict to_dict(const Position& position) {
  PtDict dict;
  dict.set("epoch", position.epoch);
  dict.set("step", position.step);
  dict.set("samples_seen", position.samples_seen);
  dict.set("epoch_loss_sum", position.epoch_loss.loss);
  dict.set("epoch_loss_items", position.epoch_loss.items);
  if (position.evaluation) dict.set("evaluation", to_dict(*position.evaluation));
  if (!position.more_evaluations.empty()) {
    PtDict more;
    for (const auto& [name, evaluation] : position.more_evaluations) more.set(name, to_dict(evaluation));
    dict.set("more_evaluations", std::move(more));
  }
  if (!position.plateau.metric.empty()) dict.set("plateau", to_dict(position.plateau));
  if (position.rollbacks > 0) dict.set("rollbacks", position.rollbacks);
  dict.set("train_samples", position.train_samples);
  dict.set("world_size", position.world.ranks);
  dict.set("global_batch", position.world.global_batch);
  return dict;
}

namespace {

/// A file that somebody has changed may say anything.
void check_position(const Position& position) {
  const auto expect = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw Exception(ErrorCode::kCorrupt,
                    fmt::format("its position is none: {} is {}, expected {} or more", name, value, least));
  };
  expect("epoch", position.epoch, 0);
  expect("step", position.step, 0);
  expect("samples_seen", position.samples_seen, 0);
  expect("epoch_loss_items", position.epoch_loss.items, 0);
  expect("world_size", position.world.ranks, 1);
  expect("global_batch", position.world.global_batch, 1);
}

}  // namespace

Position read_position(const PtDict& dict) {
  Position position;
  position.epoch = dict.at("epoch").as_int();
  position.step = dict.at("step").as_int();
  position.samples_seen = dict.at("samples_seen").as_int();
  position.epoch_loss = {dict.at("epoch_loss_sum").as_double(), dict.at("epoch_loss_items").as_int()};
  if (const PtValue* evaluation = dict.find("evaluation"))
    position.evaluation = read_evaluation(evaluation->as_dict());
  if (const PtValue* more = dict.find("more_evaluations")) {
    for (const auto& [name, evaluation] : more->as_dict().entries)
      position.more_evaluations.emplace_back(name.as_string(), read_evaluation(evaluation.as_dict()));
  }
  if (const PtValue* plateau = dict.find("plateau")) position.plateau = read_plateau(plateau->as_dict());
  if (const PtValue* rollbacks = dict.find("rollbacks")) position.rollbacks = rollbacks->as_int();
  if (const PtValue* samples = dict.find("train_samples")) position.train_samples = samples->as_int();
  position.world = {dict.at("world_size").as_int(), dict.at("global_batch").as_int()};
  check_position(position);
  return position;
}

namespace {

class PositionPart final : public SavedPart {
 public:
  explicit PositionPart(Position& position) : SavedPart("position"), position_(position) {}
  [[nodiscard]] bool is_essential() const override { return true; }
  PtValue save() override { return to_dict(position_); }
  void load(const PtValue& value) override { position_ = read_position(value.as_dict()); }

 private:
  Position& position_;
};

}  // namespace

std::unique_ptr<SavedPart> position_part(Position& position) {
  return std::make_unique<PositionPart>(position);
}

}  // namespace ddprun::training
