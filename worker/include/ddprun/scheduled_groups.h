#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace ddprun {

/// What a learning-rate scheduler moves: rate and momentum of each parameter group, as in Python's
/// `param_groups`. Every FusedOptimizer is one; StockGroups makes one of an optimizer of libtorch.
///
/// Threads  none: only the thread that steps the optimizer may use it.
class ScheduledGroups {
 public:
  /// A value that a scheduler keeps with a group, under the name that Python's group has it.
  using Entry = std::pair<std::string, double>;

  virtual ~ScheduledGroups() = default;

  [[nodiscard]] virtual std::size_t group_count() const = 0;
  [[nodiscard]] virtual double learning_rate(std::size_t group) const = 0;
  virtual void set_learning_rate(std::size_t group, double learning_rate) = 0;
  /// "momentum", or the first of "betas"; nothing where Python's class has neither.
  [[nodiscard]] virtual std::optional<double> momentum(std::size_t group) const = 0;
  virtual void set_momentum(std::size_t group, double momentum) = 0;

  /// "initial_lr", which every scheduler starts from, and what OneCycleLR adds ("max_lr", "min_lr",
  /// "max_momentum", "base_momentum"). They are part of a FusedOptimizer's state_dict().
  [[nodiscard]] std::optional<double> entry(std::size_t group, std::string_view name) const;
  void set_entry(std::size_t group, std::string_view name, double value);
  [[nodiscard]] std::vector<Entry> entries(std::size_t group) const;

 private:
  std::vector<std::vector<Entry>> entries_;
};

/// The parameter groups of an optimizer of libtorch's own (torch::optim::SGD, LBFGS …), which must outlive
/// this. All schedulers of one optimizer share one StockGroups: it holds their "initial_lr".
class StockGroups final : public ScheduledGroups {
 public:
  explicit StockGroups(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  [[nodiscard]] std::size_t group_count() const override;
  [[nodiscard]] double learning_rate(std::size_t group) const override;
  void set_learning_rate(std::size_t group, double learning_rate) override;
  [[nodiscard]] std::optional<double> momentum(std::size_t group) const override;
  void set_momentum(std::size_t group, double momentum) override;

 private:
  torch::optim::Optimizer& optimizer_;
};

}  // namespace ddprun
