#include "worker/training/step/learner.h"

#include "worker/models/weights.h"
#include "worker/runtime/checkpoint/safetensors.h"
#include "worker/runtime/comm/gpu/plugin.h"
#include "worker/tasks/registry.h"
#include "worker/training/parts/plugins.h"
#include "worker/training/state/rng.h"
#include "worker/training/step/cuda_graph_check.h"
#include "worker/training/step/kernels.h"
#include "worker/training/step/trial.h"
#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>
#include <ddprun/module_view.h>

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

namespace ddprun::training {
namespace {

/// Those that are trained, each once, in the model's order.
std::vector<NamedTensor> trained_parameters(const Model& model) {
  std::vector<NamedTensor> trained;
  for (const ModuleView::Parameter& parameter : view_of(model).parameters) {
    if (parameter.tensor.requires_grad()) trained.emplace_back(parameter.name, parameter.tensor);
  }
  return trained;
}

std::shared_ptr<Model> make_model(const Options& options, const JobParts& parts, const DataShape& data) {
  return make_part(parts.models, options.text("type"), options, data);
}

/// The weights of a file, also one of a model with other classes.
std::shared_ptr<Model> make_model_with_weights(const Options& options, const JobParts& parts,
                                               const DataShape& data, Draft& draft) {
  const std::string path = options.text("weights");
  try {
    const ModelFactory make = [&](const Options& own, const DataShape& shape) {
      return make_model(own, parts, shape);
    };
    const models::ChosenWeights weights =
        models::choose_weights(runtime::load_pt_or_safetensors(path), path,
                               models::to_weights_of(options.text("weights_of")).value());
    draft.begins_with_average = weights.is_average;
    return models::make_with_weights(make, options, data, weights.state, options.texts("weights_may_differ"),
                                     &draft.foreign_prefix);
  } catch (const Exception& exception) {
    throw Exception(exception.code(), "/model/weights: " + path + ": " + exception.what());
  }
}

/// A head that was made anew and does not learn guesses for ever.
std::string warning_of_frozen_head(const Model& model, const std::string& prefix, const Options& options,
                                   const std::vector<std::string>& frozen) {
  const std::string weight = model.head() + ".weight";
  if (model.head().empty() || std::find(frozen.begin(), frozen.end(), weight) == frozen.end()) return {};
  const std::string path = options.text("weights");
  const PtDict given = models::find_state_dict(runtime::load_pt_or_safetensors(path), path);
  const auto parameters = model.named_parameters();
  const at::Tensor* const mine = parameters.find(weight);
  const PtValue* const theirs = given.find(prefix + weight);
  if (mine == nullptr ||
      (theirs != nullptr && theirs->is_tensor() && theirs->as_tensor().sizes() == mine->sizes()))
    return {};
  return fmt::format(
      "/model/freeze: the head \"{}\" is new, with random weights, and frozen, so it never learns; "
      "leave it out of the patterns",
      model.head());
}

/// What never learns and was never trained either guesses what it passes on.
std::string warning_of_random_frozen(const std::vector<std::string>& frozen) {
  if (frozen.empty()) return {};
  return fmt::format(
      "/model/freeze: {} parameters keep the random values that they begin with, since /model/weights is "
      "null; "
      "name a file of weights there",
      frozen.size());
}

std::unique_ptr<Task> make_task(const Options& task, const JobParts& parts, const DataShape& data) {
  const std::string type = task.text("type");
  return make_part(parts.tasks, type == "auto" ? tasks::task_for(data) : type, task, data);
}

/// The names of tensors with something else than finite numbers.
std::vector<std::string> non_finite_in(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  for (const auto& [name, value] : state_dict(module).entries) {
    const at::Tensor& tensor = value.as_tensor();
    if (!tensor.is_floating_point() && !tensor.is_complex()) continue;
    // A sum of what is not all finite is not finite; it takes a tenth of the time. One that overflows may be.
    if (tensor.is_floating_point() && std::isfinite(tensor.sum().item<double>())) continue;
    if (!at::isfinite(tensor).all().item<bool>()) names.push_back(name.as_string());
  }
  return names;
}

/// Those that no training makes so.
std::set<std::string> non_finite_by_design(const Model& model) {
  std::set<std::string> names;
  for (std::string& name : non_finite_in(model)) names.insert(std::move(name));
  for (const NamedTensor& trained : trained_parameters(model)) names.erase(trained.first);
  return names;
}

void copy_buffers(const Model& from, torch::nn::Module& into) {
  const torch::NoGradGuard no_grad;
  const auto newest = view_of(from).buffers();
  const auto old = view_of(into).buffers();
  for (std::size_t i = 0; i < old.size(); ++i) old[i].second.copy_(newest[i].second);
}

void place(Model& model, const at::Device& device, const Options& train) {
  model.to(device);
  if (train.flag("channels_last")) lay_out_channels_last(model);
}

/// Whether a model is of somebody else, who knew nothing of the data.
bool is_foreign(const Options& model) { return model.has("plugin") || model.text("type") == "torchscript"; }

/// Metrics stand in files under their names, beside other things.
void check_metrics(const std::vector<Metric>& metrics) {
  static const std::set<std::string> kTaken{"event",   "time",  "elapsed",       "epoch",        "step",
                                            "seconds", "items", "learning_rate", "held_out_loss"};
  if (metrics.empty() || metrics.front().name != "loss")
    throw Exception(ErrorCode::kConfig, "/task/type: the first metric of the task is to be \"loss\"");
  std::set<std::string> seen;
  for (const Metric& metric : metrics) {
    if (kTaken.contains(metric.name) || !seen.insert(metric.name).second) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("/task/type: the task has a metric \"{}\", a name that is taken; give it "
                                  "another one",
                                  metric.name));
    }
  }
}

/// Anything that has a state_dict and a load_state_dict.
template <class Subject>
class StateDictPart : public SavedPart {
 public:
  StateDictPart(std::string key, Subject& subject, bool is_essential)
      : SavedPart(std::move(key)), subject_(subject), is_essential_(is_essential) {}
  [[nodiscard]] bool is_essential() const override { return is_essential_; }
  PtValue save() override { return state_dict(subject_); }
  void load(const PtValue& value) override { load_state_dict(subject_, value.as_dict()); }

 private:
  Subject& subject_;
  bool is_essential_;
};

/// Of a state dict: parameters under each of their names, and buffers that lie in one.
PtDict entries_of_parameters(const torch::nn::Module& module) {
  std::set<const void*> places;
  for (const ModuleView::Parameter& parameter : view_of(module).parameters)
    places.insert(parameter.tensor.const_data_ptr());
  PtDict entries;
  for (const auto& entry : state_dict(module).entries) {
    if (places.contains(entry.second.as_tensor().const_data_ptr())) entries.entries.push_back(entry);
  }
  return entries;
}

/// A module's entries of parameters, as they are now. Strategy and optimizer hold those that they train for good; but a
/// model from elsewhere may put others in the place of what is not trained.
class ParameterEntries {
 public:
  ParameterEntries(const torch::nn::Module& module, bool may_be_replaced)
      : module_(module), may_be_replaced_(may_be_replaced) {
    find();
  }
  const PtDict& now() {
    look_again();
    return entries_;
  }
  void look_again() {
    if (may_be_replaced_) find();
  }
  /// Of those that there were at the last look.
  [[nodiscard]] bool contains(const std::string& name) const { return names_.contains(name); }

 private:
  void find() {
    entries_ = entries_of_parameters(module_);
    names_.clear();
    for (const auto& [name, tensor] : entries_.entries) names_.insert(name.as_string());
  }

  const torch::nn::Module& module_;
  bool may_be_replaced_;
  PtDict entries_;
  std::set<std::string> names_;
};

/// Parameters are the same on every rank; running statistics need not be.
class ModelPart final : public StateDictPart<torch::nn::Module> {
 public:
  ModelPart(torch::nn::Module& model, bool is_foreign)
      : StateDictPart("model", model, /*is_essential=*/true), model_(model), parameters_(model, is_foreign) {}
  PtValue save_common() override { return parameters_.now(); }
  PtValue save_own() override {
    parameters_.look_again();
    PtDict buffers;
    for (const auto& item : model_.named_buffers()) {
      if (!parameters_.contains(item.key())) buffers.add(item.key(), item.value());
    }
    return buffers;
  }
  void load_halves(const PtValue& common, const PtValue& own) override {
    PtDict both = common.as_dict();
    for (const auto& entry : own.as_dict().entries) both.entries.push_back(entry);
    load(both);
  }

 private:
  torch::nn::Module& model_;
  ParameterEntries parameters_;
};

/// The average of a model. Its running statistics are the model's after each step, and in no half.
class AveragePart final : public StateDictPart<AveragedModel> {
 public:
  AveragePart(AveragedModel& average, const Model& model, bool is_foreign)
      : StateDictPart("ema", average, /*is_essential=*/false),
        average_(average),
        model_(model),
        parameters_(*average.module(), is_foreign) {}
  PtValue save_common() override {
    PtDict half;
    for (const auto& [name, tensor] : parameters_.now().entries) half.add(kPrefix + name.as_string(), tensor);
    half.add(kCount, at::scalar_tensor(average_.n_averaged(), at::kLong));
    return half;
  }
  void load_halves(const PtValue& common, const PtValue& /*own*/) override {
    PtDict whole = state_dict(average_);
    for (const auto& [name, value] : common.as_dict().entries) whole.set(name, value);
    load(whole);
    copy_buffers(model_, *average_.module());
  }

 private:
  // Of a state dict (checkpoint.h).
  static constexpr const char* kPrefix = "module.";
  static constexpr const char* kCount = "n_averaged";

  AveragedModel& average_;
  const Model& model_;
  ParameterEntries parameters_;
};

/// From three ranks on the first step after a resume has other bits without it.
class BucketsPart final : public SavedPart {
 public:
  explicit BucketsPart(Strategy& strategy) : SavedPart("buckets"), strategy_(strategy) {}
  PtValue save() override {
    PtList buckets;
    for (const std::vector<std::size_t>& bucket : strategy_.bucket_order()) {
      PtList places;
      for (const std::size_t place : bucket) places.items.emplace_back(static_cast<std::int64_t>(place));
      buckets.items.emplace_back(std::move(places));
    }
    return buckets;
  }
  void load(const PtValue& value) override {
    BucketOrder order;
    for (const PtValue& bucket : value.as_sequence()) {
      std::vector<std::size_t>& places = order.emplace_back();
      for (const PtValue& place : bucket.as_sequence())
        places.push_back(static_cast<std::size_t>(place.as_int()));
    }
    if (!order.empty()) strategy_.set_bucket_order(order);
  }

 private:
  Strategy& strategy_;
};

class SchedulePart final : public SavedPart {
 public:
  explicit SchedulePart(Schedule& schedule) : SavedPart("schedule"), schedule_(schedule) {}
  PtValue save() override {
    PtDict dict;
    if (const auto& end = schedule_.warmup_end()) {
      dict.set("warmup_end_step", end->step);
      dict.set("warmup_end_epochs", end->epochs);
    }
    return dict;
  }
  void load(const PtValue& value) override {
    const PtDict& dict = value.as_dict();
    if (dict.find("warmup_end_step") == nullptr) return;
    schedule_.set_warmup_end(Progress{.step = dict.at("warmup_end_step").as_int(),
                                      .epochs = dict.at("warmup_end_epochs").as_double()});
  }

 private:
  Schedule& schedule_;
};

}  // namespace

Draft make_draft(const Context& context, const Options& job, const JobParts& parts, const DataShape& data,
                 bool is_resumed) {
  const Options options = job.object("model");
  const std::vector<std::string> frozen = options.texts("freeze");
  seed_generators(context.device(), static_cast<std::uint64_t>(job.integer("seed")));
  Draft draft;
  const bool wants_weights = options.has("weights") && !is_resumed && context.rank() == 0;
  draft.model =
      wants_weights ? make_model_with_weights(options, parts, data, draft) : make_model(options, parts, data);
  if (!frozen.empty()) {
    const std::vector<std::string> names = models::freeze(*draft.model, frozen);
    if (wants_weights)
      draft.warning = warning_of_frozen_head(*draft.model, draft.foreign_prefix, options, names);
    if (!options.has("weights") && !is_resumed && !is_foreign(options))
      draft.warning = warning_of_random_frozen(names);
  }
  draft.task = make_task(job.object("task"), parts, data);
  check_metrics(draft.task->metrics());
  if (is_foreign(options) || job.object("task").has("plugin")) {
    // Another one, because a forward in training mode leaves its traces.
    const KeptGenerators kept;
    try_out(*make_model(options, parts, data), *draft.task, data);
  }
  return draft;
}

Learner::Learner(const Context& context, const Options& job, const JobParts& parts, const DataShape& data,
                 Draft draft, TimeSpent& time)
    : block_(rank_block(job, context)),
      generators_(context.device(), block_.count),
      is_foreign_(is_foreign(job.object("model"))),
      model_(std::move(draft.model)),
      task_(std::move(draft.task)) {
  const auto seed = static_cast<std::uint64_t>(job.integer("seed"));
  const Options train = job.object("train");
  choose_kernels(train);
  if (train.flag("cuda_graph")) check_cuda_graph(context.device(), context.backend());
  place(*model_, context.device(), train);
  strategy_ =
      make_strategy(job, context, model_, generators_, [options = job.object("model"), &parts, data, train] {
        std::shared_ptr<Model> replica = make_model(options, parts, data);
        place(*replica, at::kCPU, train);
        return replica;
      });

  note_non_finite();
  const Options optimizer = job.object("optimizer");
  optimizer_ = parts.optimizers.at(optimizer.text("type")).make(optimizer, trained_parameters(*model_));
  base_rate_ = optimizer.number("learning_rate");
  const Options schedule = job.object("schedule");
  schedule_.emplace(schedule.integer("warmup_steps"),
                    parts.schedules.at(schedule.text("type")).make(schedule));

  if (const double decay = train.number("ema_decay"); decay > 0) {
    const std::shared_ptr<Model> average = make_model(job.object("model"), parts, data);
    place(*average, context.device(), train);
    average_.emplace(average, AveragedModelOptions{.decay = decay});
    begin_average();
  }
  if (train.flag("cuda_graph")) graph_.emplace(&runtime::record_graph, kStepsBeforeGraph, *optimizer_);
  step_.emplace(Step::Parts{.strategy = *strategy_,
                            .model = *model_,
                            .optimizer = *optimizer_,
                            .task = *task_,
                            .average = average_ ? &*average_ : nullptr,
                            .graph = graph_ ? &*graph_ : nullptr,
                            .device = context.device(),
                            .time = time},
                read_step_options(train));
  updated_parameters_ = updated_parameters();
  generators_.seed([&](std::size_t turn) { return rank_seed(seed, block_.rank(turn), 0); });
}

StepOutcome Learner::step(const MicroBatches& micro_batches, const Progress& progress,
                          const JobLength& length, const StepHooks& hooks) {
  return step_->run(micro_batches, base_rate_ * schedule_->factor(progress, length), hooks);
}

void Learner::sync_buffers() { strategy_->sync_buffers(); }

void Learner::begin_average() {
  if (average_) load_state_dict(*average_->module(), state_dict(*model_));
}

Model& Learner::evaluated() {
  strategy_->sync_buffers();
  if (!average_) return *model_;
  // It has taken each rank's own running statistics with each step.
  copy_buffers(*model_, *average_->module());
  return static_cast<Model&>(*average_->module());
}

void Learner::add_saved_parts(SavedParts& parts) {
  constexpr bool kEssential = true;
  parts.push_back(std::make_unique<ModelPart>(*model_, is_foreign_));
  parts.push_back(std::make_unique<StateDictPart<FusedOptimizer>>("optimizer", *optimizer_, kEssential));
  parts.push_back(std::make_unique<SchedulePart>(*schedule_));
  parts.push_back(std::make_unique<BucketsPart>(*strategy_));
  if (auto buffers = strategy_->buffers_part()) parts.push_back(std::move(buffers));
  if (step_->options().precision == Precision::kFp16)
    parts.push_back(std::make_unique<StateDictPart<GradScaler>>("scaler", step_->scaler(), !kEssential));
  if (average_) parts.push_back(std::make_unique<AveragePart>(*average_, *model_, is_foreign_));
}

std::vector<at::Tensor> Learner::updated_parameters() const {
  std::vector<at::Tensor> tensors;
  for (const ModuleView::Parameter& parameter : view_of(*model_).parameters) {
    if (!is_foreign_ || parameter.tensor.requires_grad()) tensors.push_back(parameter.tensor);
  }
  if (average_) {
    for (const ModuleView::Parameter& parameter : view_of(*average_->module()).parameters)
      tensors.push_back(parameter.tensor);
  }
  return tensors;
}

std::vector<at::Tensor> Learner::updated() const {
  std::vector<at::Tensor> tensors = is_foreign_ ? updated_parameters() : updated_parameters_;
  for (const FusedOptimizer::ParameterState& state : optimizer_->state()) {
    for (const auto& [name, tensor] : state) {
      if (tensor.defined()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

void Learner::note_non_finite() { non_finite_from_start_ = non_finite_by_design(*model_); }

PtValue Learner::non_finite_from_start() const {
  PtList names;
  for (const std::string& name : non_finite_from_start_) names.items.emplace_back(name);
  return names;
}

void Learner::take_non_finite(const PtValue& names) {
  non_finite_from_start_.clear();
  for (const PtValue& name : names.as_sequence()) non_finite_from_start_.insert(name.as_string());
}

std::string Learner::first_non_finite() const {
  const auto first_in = [this](const torch::nn::Module& module) {
    const std::vector<std::string> names = non_finite_in(module);
    const auto first = std::find_if(names.begin(), names.end(), [this](const std::string& name) {
      return !non_finite_from_start_.contains(name);
    });
    return first == names.end() ? std::string() : *first;
  };
  std::string found = first_in(*model_);
  if (found.empty() && average_) {
    found = first_in(*average_->module());
    if (!found.empty()) found += " (of the average)";
  }
  return found;
}

}  // namespace ddprun::training
