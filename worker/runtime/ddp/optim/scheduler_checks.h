#pragma once

#include <ddprun/exception.h>
#include <ddprun/lr_scheduler.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// What the families of schedulers share. Refusals are Exception kConfig. This header and their sources are
// compiled without contraction (-ffp-contract=off): a fused multiply-add would change last bits.
namespace ddprun::runtime {

[[noreturn]] inline void refuse(const std::string& text) { throw Exception(ErrorCode::kConfig, text); }

inline void check_positive(const char* name, const char* parameter, std::int64_t value) {
  if (value <= 0) refuse(fmt::format("{}: {} is {}; it has to be at least 1", name, parameter, value));
}

/// Python's _format_param: one value for all groups, or one each.
inline std::vector<double> per_group(const char* name, const char* parameter, std::vector<double> values,
                                     std::size_t groups) {
  if (values.size() == 1) values.resize(groups, values.front());
  if (values.size() != groups) {
    refuse(fmt::format("{}: {} has {} values for {} parameter groups; give one value, or one per group", name,
                       parameter, values.size(), groups));
  }
  return values;
}

template <class Change>
std::vector<double> changed(std::vector<double> rates, Change change) {
  for (double& rate : rates) rate = change(rate);
  return rates;
}

inline double own_value(const SchedulerState& state, const std::string& scheduler, const char* name) {
  for (const auto& [key, value] : state.own) {
    if (key == name) return std::visit([](auto number) { return static_cast<double>(number); }, value);
  }
  refuse(fmt::format("{}: the state has no \"{}\"; is it of another scheduler?", scheduler, name));
}

inline void check_rates(const std::string& scheduler, const char* name, const std::vector<double>& rates,
                        std::size_t groups) {
  if (rates.size() == groups) return;
  refuse(fmt::format("{}: the state has {} entries in \"{}\", the optimizer has {} parameter groups",
                     scheduler, rates.size(), name, groups));
}

}  // namespace ddprun::runtime
