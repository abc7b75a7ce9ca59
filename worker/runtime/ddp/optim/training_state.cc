#include <ddprun/checkpoint.h>

namespace ddprun {
namespace {

PtList to_list(const std::vector<double>& values) { return {{values.begin(), values.end()}}; }

std::vector<double> to_doubles(const PtDict& dict, const char* name) {
  std::vector<double> values;
  if (const PtValue* list = dict.find(name)) {
    for (const PtValue& value : list->as_sequence()) values.push_back(value.as_double());
  }
  return values;
}

PtDict to_dict(const SchedulerState& state) {
  PtDict dict;
  if (!state.base_lrs.empty()) dict.set("base_lrs", to_list(state.base_lrs));
  dict.set("last_epoch", state.last_epoch);
  dict.set("_step_count", state.step_count);
  dict.set("_last_lr", to_list(state.last_lr));
  for (const auto& [name, value] : state.own) {
    dict.set(name, std::visit([](auto number) { return PtValue(number); }, value));
  }
  if (state.lambdas > 0) dict.set("lr_lambdas", PtList{std::vector<PtValue>(state.lambdas)});
  if (state.schedulers.empty()) return dict;
  PtList schedulers;
  for (const SchedulerState& scheduler : state.schedulers) schedulers.items.emplace_back(to_dict(scheduler));
  dict.set("_schedulers", std::move(schedulers));
  return dict;
}

std::int64_t int_or_zero(const PtDict& dict, const char* name) {
  const PtValue* value = dict.find(name);
  return value == nullptr ? 0 : value->as_int();
}

SchedulerState from_dict(const PtDict& dict) {
  SchedulerState state;
  state.base_lrs = to_doubles(dict, "base_lrs");
  state.last_epoch = int_or_zero(dict, "last_epoch");  // Python's ChainedScheduler has none
  state.step_count = int_or_zero(dict, "_step_count");
  state.last_lr = to_doubles(dict, "_last_lr");
  for (const char* name : {"T_cur", "T_i", "best", "cooldown_counter", "num_bad_epochs"}) {
    if (const PtValue* value = dict.find(name)) state.own.emplace_back(name, value->as_double());
  }
  if (const PtValue* schedulers = dict.find("_schedulers")) {
    for (const PtValue& scheduler : schedulers->as_sequence()) {
      state.schedulers.push_back(from_dict(scheduler.as_dict()));
    }
  }
  return state;
}

}  // namespace

PtDict state_dict(const LRScheduler& scheduler) { return to_dict(scheduler.state()); }

PtDict state_dict(const ReduceLROnPlateau& scheduler) { return to_dict(scheduler.state()); }

void load_state_dict(LRScheduler& scheduler, const PtDict& state) { scheduler.load_state(from_dict(state)); }

void load_state_dict(ReduceLROnPlateau& scheduler, const PtDict& state) {
  scheduler.load_state(from_dict(state));
}

PtDict state_dict(const GradScaler& scaler) {
  PtDict dict;
  if (!scaler.is_enabled()) return dict;
  const GradScalerState state = scaler.state();
  dict.set("scale", state.scale);
  dict.set("growth_factor", state.growth_factor);
  dict.set("backoff_factor", state.backoff_factor);
  dict.set("growth_interval", state.growth_interval);
  dict.set("_growth_tracker", state.growth_tracker);
  return dict;
}

void load_state_dict(GradScaler& scaler, const PtDict& state) {
  if (!scaler.is_enabled()) return;
  if (state.entries.empty()) {
    throw Exception(
        ErrorCode::kConfig,
        "GradScaler: the state is empty, as that of a scaler that was not enabled; make this one so, or "
        "begin without a state");
  }
  scaler.load_state({state.at("scale").as_double(), state.at("growth_factor").as_double(),
                     state.at("backoff_factor").as_double(), state.at("growth_interval").as_int(),
                     state.at("_growth_tracker").as_int()});
}

PtDict state_dict(const AveragedModel& average) {
  PtDict dict;
  dict.ordered = true;
  dict.set("n_averaged", at::scalar_tensor(average.n_averaged(), at::kLong));
  for (auto& [name, tensor] : state_dict(*average.module()).entries)
    dict.add("module." + name.as_string(), tensor);
  return dict;
}

void load_state_dict(AveragedModel& average, const PtDict& state) {
  constexpr std::string_view kPrefix = "module.";
  PtDict module;
  for (const auto& [name, tensor] : state.entries) {
    const std::string& text = name.as_string();
    if (text.starts_with(kPrefix)) module.add(text.substr(kPrefix.size()), tensor);
  }
  const std::int64_t count = state.at("n_averaged").as_tensor().item<std::int64_t>();
  load_state_dict(*average.module(), module);
  average.set_n_averaged(count);
}

}  // namespace ddprun
