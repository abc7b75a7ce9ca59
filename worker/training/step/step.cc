#include "worker/training/step/step.h"

#include "rendezvous/base/check.h"
#include "worker/training/step/exposed_communication.h"
#include <ddprun/autocast.h>
#include <ddprun/clip_grad.h>
#include <ddprun/module_view.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

constexpr std::array<std::pair<const char*, Precision>, 4> kPrecisions{{{"fp32", Precision::kFp32},
                                                                        {"tf32", Precision::kTf32},
                                                                        {"bf16", Precision::kBf16},
                                                                        {"fp16", Precision::kFp16}}};

Precision to_precision(const std::string& name) {
  for (const auto& [word, precision] : kPrecisions) {
    if (name == word) return precision;
  }
  DDPRUN_CHECK(false, "the schema lets no other precision through");
}

NonFinite to_non_finite(const std::string& word) {
  if (word == "skip") return NonFinite::kSkip;
  return word == "rollback" ? NonFinite::kRollBack : NonFinite::kStop;
}

/// fp16 needs one to keep small gradients. One that always scales by 1 leaves out steps that are not finite, on
/// the device, and changes no bit of the others.
GradScalerOptions scaler_options(const StepOptions& options) {
  if (options.precision == Precision::kFp16) return {};
  return {.init_scale = 1, .enabled = options.non_finite == NonFinite::kSkip};
}

using Buffers = std::vector<at::Tensor>;

/// Of all ranks that this process trains as.
Buffers buffers_of(const Model& model, const Strategy& strategy) {
  Buffers all = strategy.buffers_aside();
  for (const auto& [name, buffer] : view_of(model).buffers()) all.push_back(buffer);
  return all;
}

std::vector<at::Tensor> copies_of(const Buffers& buffers) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : buffers) copies.push_back(buffer.detach().clone());
  return copies;
}

/// Where `is_left_out` is not 0, the buffers are what they were. Waits for no device.
void put_back(const Buffers& buffers, const std::vector<at::Tensor>& before, const at::Tensor& is_left_out) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor& now = buffers[i];
    now.copy_(at::where(is_left_out.to(now.device()).ne(0), before[i], now));
  }
}

}  // namespace

StepOptions read_step_options(const Options& train) {
  return {.precision = to_precision(train.text("precision")),
          .clip_grad_norm = train.number("clip_grad_norm"),
          .clip_grad_value = train.number("clip_grad_value"),
          .non_finite = to_non_finite(train.text("non_finite"))};
}

std::optional<c10::ScalarType> autocast_dtype(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return std::nullopt;
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
  }
  return std::nullopt;
}

Step::Step(const Parts& parts, const StepOptions& options)
    : parts_(parts), options_(options), scaler_(scaler_options(options)) {
  for (const ModuleView::Parameter& parameter : view_of(parts.model).parameters)
    if (parameter.tensor.requires_grad()) clipped_.push_back(parameter.tensor);
}

at::Tensor Step::loss_of(const Batch& batch) {
  const auto time = parts_.time.on(Activity::kForward);
  std::optional<AutocastGuard> autocast;
  if (const auto dtype = autocast_dtype(options_.precision)) autocast.emplace(parts_.device.type(), dtype);
  return parts_.strategy.loss(batch, parts_.task);
}

StepOutcome Step::run(const MicroBatches& micro_batches, double learning_rate, const StepHooks& hooks) {
  const auto turns = static_cast<std::int64_t>(parts_.strategy.turns());
  StepOutcome outcome{at::zeros({turns, 2}, at::TensorOptions(parts_.device).dtype(at::kDouble))};
  parts_.optimizer.set_learning_rate(learning_rate);
  // A forward changes running statistics before anybody knows whether the step counts.
  const bool may_be_left_out = options_.non_finite == NonFinite::kSkip;
  const Buffers buffers = may_be_left_out ? buffers_of(parts_.model, parts_.strategy) : Buffers();
  const std::vector<at::Tensor> before = copies_of(buffers);
  if (parts_.graph != nullptr && micro_batches.weights.empty()) {
    learn_in_graph(micro_batches, outcome);
  } else if (!learn(micro_batches, outcome, hooks)) {
    return outcome;
  }
  if (hooks.before_update) hooks.before_update();
  const auto time = parts_.time.on(Activity::kOptimizer);
  clip();
  scaler_.step(parts_.optimizer);
  if (may_be_left_out) put_back(buffers, before, scaler_.found_inf(parts_.optimizer));
  if (options_.precision == Precision::kFp16) {
    scaler_.update();
  } else {
    scaler_.update(1.0);
  }
  if (parts_.average != nullptr) parts_.average->update_parameters(parts_.model);
  if (options_.non_finite == NonFinite::kRollBack) outcome.is_finite = is_all_finite(outcome);
  return outcome;
}

bool Step::learn(const MicroBatches& micro_batches, StepOutcome& outcome, const StepHooks& hooks) {
  for (std::size_t turn = 0; turn < parts_.strategy.turns(); ++turn) {
    parts_.strategy.begin_turn(turn);
    if (!learn_as(turn, micro_batches, outcome, hooks)) return false;
    parts_.strategy.end_turn(turn);
  }
  parts_.strategy.sum_gradients(parts_.time);
  return true;
}

bool Step::learn_as(std::size_t turn, const MicroBatches& micro_batches, StepOutcome& outcome,
                    const StepHooks& hooks) {
  parts_.optimizer.zero_grad();
  for (std::int64_t left = micro_batches.count; left > 0; --left) {
    const bool is_last = left == 1;
    const auto number = static_cast<std::size_t>(micro_batches.count - left);
    const double weight = micro_batches.weights.empty() ? 1.0 / static_cast<double>(micro_batches.count)
                                                        : micro_batches.weights[turn][number];
    const std::shared_ptr<void> only_here = is_last ? nullptr : parts_.strategy.no_sync();
    const Batch batch = micro_batches.next();
    const at::Tensor loss = loss_of(batch);
    outcome.loss_and_items[static_cast<std::int64_t>(turn)].add_(
        counted(loss, weight == 0 ? 0 : parts_.task.items(batch)));
    outcome.is_finite = !must_stop(loss);
    outcome.turn = turn;
    if (!outcome.is_finite) return false;
    at::Tensor share = loss;
    if (!micro_batches.weights.empty()) {
      share = loss * weight;
    } else if (micro_batches.count > 1) {
      share = loss / static_cast<double>(micro_batches.count);  // as Python's loops have it, to the last bit
    }
    if (is_last && hooks.before_last_backward) hooks.before_last_backward(outcome);
    const auto time = parts_.time.on(Activity::kBackward);
    const at::Tensor scaled = scaler_.scale(told_to_scaler(share, loss));
    if (is_last) count_exposed_communication(scaled, parts_.time);
    scaled.backward();
  }
  return true;
}

void Step::learn_in_graph(const MicroBatches& micro_batches, StepOutcome& outcome) {
  DDPRUN_CHECK(micro_batches.count == 1, "a graph is of one micro batch");
  const Batch batch = micro_batches.next();
  const at::Tensor loss = parts_.graph->run(batch, [this](const Batch& input) {
    const at::Tensor found = loss_of(input);
    const auto time = parts_.time.on(Activity::kBackward);
    scaler_.scale(told_to_scaler(found, found)).backward();
    return found;
  });
  outcome.loss_and_items[0].add_(counted(loss, parts_.task.items(batch)));
}

// An overflow of fp16's gradients is the scaler's: it looks for a scale.
bool Step::is_all_finite(const StepOutcome& outcome) const {
  if (!at::isfinite(outcome.loss_and_items.select(1, 0)).all().item<bool>()) return false;
  if (options_.precision == Precision::kFp16) return true;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parts_.optimizer.parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return true;
  const std::vector<at::Tensor> largest =
      at::_foreach_norm(gradients, std::numeric_limits<double>::infinity());
  return at::isfinite(at::stack(largest)).all().item<bool>();
}

/// The scaler leaves steps out by their gradients, and those of an infinite loss may be finite: of a square that
/// overflows, for one. They are made NaN, which is a NaN for all ranks.
at::Tensor Step::told_to_scaler(const at::Tensor& share, const at::Tensor& loss) const {
  if (options_.non_finite != NonFinite::kSkip) return share;
  const at::Tensor value = loss.detach();
  return share * at::where(at::isfinite(value), at::ones_like(value), at::full_like(value, std::nan("")));
}

/// What the sums over steps take of a batch: nothing of a loss that is left out.
at::Tensor Step::counted(const at::Tensor& loss, std::int64_t items) const {
  const at::Tensor mean = loss.detach().to(at::kDouble);
  const at::Tensor both = at::stack({mean, at::ones_like(mean)}) * static_cast<double>(items);
  if (options_.non_finite != NonFinite::kSkip) return both;
  return at::where(at::isfinite(mean), both, at::zeros_like(both));
}

bool Step::must_stop(const at::Tensor& loss) const {
  return options_.non_finite == NonFinite::kStop && parts_.device.is_cpu() &&
         !std::isfinite(loss.item<double>());
}

void Step::clip() {
  if (options_.clip_grad_norm == 0 && options_.clip_grad_value == 0) return;
  if (scaler_.is_enabled()) scaler_.unscale_(parts_.optimizer);
  if (options_.clip_grad_norm > 0) clip_grad_norm_(clipped_, options_.clip_grad_norm);
  if (options_.clip_grad_value > 0) clip_grad_value_(clipped_, options_.clip_grad_value);
}

}  // namespace ddprun::training
