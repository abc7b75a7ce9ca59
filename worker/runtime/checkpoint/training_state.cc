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

}  // namespace ddprun
