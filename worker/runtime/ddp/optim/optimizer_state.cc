#include <ddprun/checkpoint.h>

#include <fmt/format.h>

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

// What schedulers keep with a group; where one of them moves the momentum, that is as old as its rate.
void load_schedule(FusedOptimizer& optimizer, std::size_t index, const PtDict& group) {
  for (const char* name : {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum"}) {
    if (const PtValue* value = group.find(name)) optimizer.set_entry(index, name, value->as_double());
  }
  if (!optimizer.momentum(index) || !optimizer.entry(index, "max_momentum")) return;
  const PtValue* betas = group.find("betas");
  const PtValue& momentum = betas != nullptr ? betas->as_sequence().at(0) : group.at("momentum");
  optimizer.set_momentum(index, momentum.as_double());
}

}  // namespace

PtDict state_dict(const FusedOptimizer& optimizer) {
  PtDict state;
  std::int64_t index = 0;
  for (const FusedOptimizer::ParameterState& parameter : optimizer.state()) {
    PtDict entries;
    for (const auto& [name, tensor] : parameter) entries.set(name, tensor);
    if (!parameter.empty()) state.add(index, std::move(entries));
    ++index;
  }
  PtList groups;
  index = 0;
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) {
    PtDict group;
    for (const auto& [name, value] : optimizer.hyperparameters(i)) group.set(name, to_pt(value));
    PtList indices;
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
  for (const PtValue& group : groups) rates.push_back(group.as_dict().at("lr").as_double());
  FusedOptimizer::Counters counters;
  for (const auto& [name, value] : optimizer.counters()) {
    if (const PtValue* given = state.find(name)) counters.emplace_back(name, given->as_int());
  }
  optimizer.load_state(parameters);
  optimizer.load_counters(counters);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    optimizer.set_learning_rate(i, rates[i]);
    load_schedule(optimizer, i, groups[i].as_dict());
  }
}

}  // namespace ddprun
