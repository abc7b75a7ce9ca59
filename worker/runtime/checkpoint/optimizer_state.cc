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

}  // namespace

PtDict state_dict(const FusedOptimizer& optimizer) {
  PtDict state;
  std::int64_t index = 0;
  PtList indices;
  for (const FusedOptimizer::ParameterState& parameter : optimizer.state()) {
    PtDict entries;
    for (const auto& [name, tensor] : parameter) entries.set(name, tensor);
    if (!parameter.empty()) state.set(index, std::move(entries));
    indices.items.emplace_back(index++);
  }
  PtDict group;
  for (const auto& [name, value] : optimizer.hyperparameters()) group.set(name, to_pt(value));
  group.set("params", std::move(indices));
  PtDict whole;
  whole.set("state", std::move(state));
  whole.set("param_groups", PtList{{std::move(group)}});
  return whole;
}

void load_state_dict(FusedOptimizer& optimizer, const PtDict& state) {
  const std::vector<PtValue>& groups = state.at("param_groups").as_sequence();
  if (groups.size() != 1) {
    throw Exception(
        ErrorCode::kConfig,
        fmt::format("the optimizer state has {} parameter groups, this optimizer has 1", groups.size()));
  }
  const PtDict& group = groups.front().as_dict();
  const std::vector<PtValue>& indices = group.at("params").as_sequence();
  if (indices.size() != optimizer.parameters().size()) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("the optimizer state is of {} parameters, this optimizer has {}",
                                indices.size(), optimizer.parameters().size()));
  }
  const PtDict& by_index = state.at("state").as_dict();
  std::vector<FusedOptimizer::ParameterState> parameters;
  for (const PtValue& index : indices) {
    const PtValue* entries = by_index.find(index.as_int());
    parameters.push_back(entries == nullptr ? FusedOptimizer::ParameterState{}
                                            : to_parameter_state(entries->as_dict()));
  }
  optimizer.load_state(parameters);
  optimizer.set_learning_rate(group.at("lr").as_double());
}

}  // namespace ddprun
