#include <ddprun/checkpoint.h>

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

PtValue to_pt(const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isTensor()) return value.toTensor();
  if (value.isTuple()) {
    PtTuple tuple;
    for (const c10::IValue& element : value.toTupleRef().elements()) tuple.items.push_back(to_pt(element));
    return tuple;
  }
  return value.toStringRef();
}

FusedOptimizer::ParameterState to_parameter_state(const PtDict& entries) {
  FusedOptimizer::ParameterState state;
  for (const auto& [name, value] : entries.entries) {
    // Python's plain SGD writes momentum_buffer: None.
    if (!value.is_none()) state.emplace_back(name.as_string(), value.as_tensor());
  }
  return state;
}

/// What moves in a group beside its rate.
struct GroupSchedule {
  std::vector<std::pair<const char*, double>> entries;  ///< what schedulers keep with it
  std::optional<double> momentum;                       ///< where a schedule moves it
};

double momentum_of(const PtDict& group) {
  const PtValue* betas = group.find("betas");
  if (betas == nullptr) return group.at("momentum").as_double();
  if (!betas->as_sequence().empty()) return betas->as_sequence().front().as_double();
  throw Exception(ErrorCode::kCorrupt, "the optimizer state has a group whose \"betas\" are empty");
}

GroupSchedule read_schedule(const FusedOptimizer& optimizer, std::size_t index, const PtDict& group) {
  GroupSchedule schedule;
  for (const char* name : {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum"}) {
    if (const PtValue* value = group.find(name)) schedule.entries.emplace_back(name, value->as_double());
  }
  const bool is_moved = group.find("max_momentum") != nullptr || optimizer.entry(index, "max_momentum");
  if (optimizer.momentum(index) && is_moved) schedule.momentum = momentum_of(group);
  return schedule;
}

}  // namespace

PtDict state_dict(const FusedOptimizer& optimizer) {
  PtDict state;
  std::int64_t index = 0;
  std::vector<FusedOptimizer::ParameterState> parameters = optimizer.state();
  state.entries.reserve(parameters.size());
  for (FusedOptimizer::ParameterState& parameter : parameters) {
    PtDict entries;
    entries.entries.reserve(parameter.size());
    for (auto& [name, tensor] : parameter) entries.add(std::move(name), std::move(tensor));
    if (!parameter.empty()) state.add(index, std::move(entries));
    ++index;
  }
  PtList groups;
  index = 0;
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) {
    PtDict group;
    for (const auto& [name, value] : optimizer.hyperparameters(i)) group.set(name, to_pt(value));
    PtList indices;
    indices.items.reserve(optimizer.group_sizes()[i]);
    for (std::size_t k = 0; k < optimizer.group_sizes()[i]; ++k) indices.items.emplace_back(index++);
    group.set("params", std::move(indices));
    groups.items.emplace_back(std::move(group));
  }
  PtDict whole;
  whole.set("state", std::move(state));
  whole.set("param_groups", std::move(groups));
  for (const auto& [name, value] : optimizer.counters()) whole.set(name, value);
  return whole;
}

void load_state_dict(FusedOptimizer& optimizer, const PtDict& state) {
  const std::vector<PtValue>& groups = state.at("param_groups").as_sequence();
  if (groups.size() != optimizer.group_count()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("the optimizer state has {} parameter groups, this optimizer has {}",
                                groups.size(), optimizer.group_count()));
  }
  const PtDict& by_index = state.at("state").as_dict();
  std::vector<FusedOptimizer::ParameterState> parameters;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<PtValue>& indices = groups[i].as_dict().at("params").as_sequence();
    if (indices.size() != optimizer.group_sizes()[i]) {
      throw Exception(ErrorCode::kConfig,
                      fmt::format("the optimizer state is of {} parameters in group {}, this "
                                  "optimizer has {}",
                                  indices.size(), i, optimizer.group_sizes()[i]));
    }
    for (const PtValue& index : indices) {
      const PtValue* entries = by_index.find(index.as_int());
      parameters.push_back(entries == nullptr ? FusedOptimizer::ParameterState{}
                                              : to_parameter_state(entries->as_dict()));
    }
  }
  std::vector<double> rates;
  std::vector<GroupSchedule> schedules;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    rates.push_back(groups[i].as_dict().at("lr").as_double());
    schedules.push_back(read_schedule(optimizer, i, groups[i].as_dict()));
  }
  FusedOptimizer::Counters counters;
  for (const auto& [name, value] : optimizer.counters()) {
    if (const PtValue* given = state.find(name)) counters.emplace_back(name, given->as_int());
  }
  optimizer.load_state(parameters);  // the last that may refuse something
  optimizer.load_counters(counters);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    optimizer.set_learning_rate(i, rates[i]);
    for (const auto& [name, value] : schedules[i].entries) optimizer.set_entry(i, name, value);
    if (schedules[i].momentum) optimizer.set_momentum(i, *schedules[i].momentum);
  }
}

}  // namespace ddprun
