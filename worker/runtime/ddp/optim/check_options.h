#pragma once

#include <ddprun/exception.h>

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::runtime {

/// Refuses hyperparameters that torch.optim refuses, and what is no number: Exception kConfig with class, group, name,
/// value and bound.
class OptionsCheck {
 public:
  OptionsCheck(std::string optimizer, std::size_t group) : optimizer_(std::move(optimizer)), group_(group) {}

  void at_least_0(std::string_view name, double value) const {
    if (!(value >= 0)) refuse(name, value, "at least 0");
  }
  void from_0_below_1(std::string_view name, double value) const {
    if (!(value >= 0 && value < 1)) refuse(name, value, "in [0, 1)");
  }

 private:
  [[noreturn]] void refuse(std::string_view name, double value, std::string_view bound) const {
    throw Exception(ErrorCode::kConfig, fmt::format("{}: {} of group {} is {}; it has to be {}", optimizer_,
                                                    name, group_, value, bound));
  }

  std::string optimizer_;
  std::size_t group_;
};

}  // namespace ddprun::runtime
