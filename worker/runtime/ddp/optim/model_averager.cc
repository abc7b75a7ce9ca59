#include <ddprun/collectives.h>
#include <ddprun/exception.h>
#include <ddprun/model_averager.h>

#include <fmt/format.h>
#include <torch/types.h>

#include <numeric>

namespace ddprun {
namespace {

[[noreturn]] void refuse_averager(const std::string& why) {
  throw Exception(ErrorCode::kConfig, "model averager: " + why);
}

void check_warmup(std::int64_t steps) {
  if (steps < 0) refuse_averager(fmt::format("warmup_steps is {}; expected at least 0", steps));
}

void check_levels(const std::vector<HierarchicalModelAverager::Level>& levels, int size) {
  if (levels.empty()) refuse_averager("no levels are given; expected at least the whole group");
  std::int64_t last = 0;
  for (const auto& [period, group_size] : levels) {
    if (period <= last) {
      refuse_averager(fmt::format("a level of period {} follows one of {}; expected rising periods from 1 on",
                                  period, last));
    }
    if (group_size < 1 || size % group_size != 0) {
      refuse_averager(
          fmt::format("a level has groups of {} ranks; expected a divisor of all {}", group_size, size));
    }
    last = period;
  }
  if (levels.back().group_size != size) {
    refuse_averager(fmt::format("the last level has groups of {} ranks; expected all {}",
                                levels.back().group_size, size));
  }
}

// Neighbours: 0 … n-1, n … 2n-1, …
std::vector<std::vector<int>> blocks_of(int size, int block) {
  std::vector<std::vector<int>> blocks;
  for (int first = 0; first < size; first += block) {
    blocks.emplace_back(static_cast<std::size_t>(block));
    std::iota(blocks.back().begin(), blocks.back().end(), first);
  }
  return blocks;
}

}  // namespace

void ModelAverager::average_parameters(const std::vector<at::Tensor>& parameters) {
  const Group* group = group_of(step_++);
  if (group == nullptr) return;
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) trained.push_back(parameter);
  }
  ddprun::average_parameters(*group, trained);
}

PeriodicModelAverager::PeriodicModelAverager(Group group, const PeriodicModelAveragerOptions& options)
    : group_(std::move(group)), options_(options) {
  if (options.period < 1)
    refuse_averager(fmt::format("the period is {}; expected at least 1", options.period));
  check_warmup(options.warmup_steps);
}

const Group* PeriodicModelAverager::group_of(std::int64_t step) const {
  const std::int64_t since = step - options_.warmup_steps;
  return since >= 0 && since % options_.period == 0 ? &group_ : nullptr;
}

HierarchicalModelAverager::HierarchicalModelAverager(const Group& group, const std::vector<Level>& levels,
                                                     std::int64_t warmup_steps)
    : warmup_steps_(warmup_steps) {
  check_warmup(warmup_steps);
  check_levels(levels, group.size());
  for (const auto& [period, size] : levels) {
    groups_.emplace_back(period,
                         size == group.size() ? group : split_group(group, blocks_of(group.size(), size)));
  }
}

const Group* HierarchicalModelAverager::group_of(std::int64_t step) const {
  if (step < warmup_steps_) return nullptr;
  for (auto level = groups_.rbegin(); level != groups_.rend(); ++level) {
    if (step % level->first == 0) return &level->second;
  }
  return nullptr;
}

PostLocalSgdOptimizer::PostLocalSgdOptimizer(FusedOptimizer& local, ModelAverager& averager)
    : local_(local), averager_(averager) {
  auto next = local.parameters().begin();
  for (const std::size_t size : local.group_sizes()) {
    const auto end = next + static_cast<std::ptrdiff_t>(size);
    append_group({next, end});
    next = end;
  }
}

void PostLocalSgdOptimizer::step(const StepScale& scale) {
  local_.step(scale);
  averager_.average_parameters(parameters());
}

void PostLocalSgdOptimizer::skip_step() {
  local_.skip_step();
  averager_.average_parameters(parameters());
}

void PostLocalSgdOptimizer::load_counters(const Counters& counters) {
  averager_.set_step(0);
  for (const auto& [name, value] : counters) {
    if (name == "step") averager_.set_step(value);
  }
}

}  // namespace ddprun
