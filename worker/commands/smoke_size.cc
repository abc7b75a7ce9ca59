#include "worker/commands/smoke_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ddprun::commands {

using nlohmann::json;

namespace {

constexpr std::int64_t kStepsPerEpoch = 3;
constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kBatch = 2;

class Settings {
 public:
  explicit Settings(const json& job) : job_(job) {}

  /// 0: the job has no such number.
  [[nodiscard]] std::int64_t value(const std::string& pointer) const {
    const json::json_pointer place(pointer);
    return job_.contains(place) && job_.at(place).is_number_integer() ? job_.at(place).get<std::int64_t>()
                                                                      : 0;
  }

  void add(std::string setting) { settings_.push_back(std::move(setting)); }

  void set(const std::string& pointer, std::int64_t number) {
    if (job_.contains(json::json_pointer(pointer))) add(fmt::format("{}={}", pointer, number));
  }

  /// Not more than the job's own, where that is not 0: all.
  void set_at_most(const std::string& pointer, std::int64_t most) {
    const std::int64_t own = value(pointer);
    set(pointer, own > 0 ? std::min(own, most) : most);
  }

  [[nodiscard]] std::vector<std::string> take() { return std::move(settings_); }

 private:
  const json& job_;
  std::vector<std::string> settings_;
};

bool reduces_at_epochs(const json& schedule) {
  return schedule.at("type") == "multi_step" || schedule.at("type") == "step";
}

/// With one reduction, which comes before the steps are over however large the data is.
json reduced_at_once(json schedule) {
  schedule["type"] = "multi_step";
  schedule["milestones"] = json::array({1e-9});
  schedule.erase("step_epochs");
  return schedule;
}

}  // namespace

SmallJob make_small(const json& job, int processes) {
  Settings small(job);
  const std::int64_t accumulation = std::min<std::int64_t>(small.value("/train/accumulation_steps"), 2);
  const std::int64_t batch = std::min(small.value("/train/batch_size"), kBatch);
  const bool has_virtual_ranks = small.value("/train/virtual_ranks") > 0;
  const std::int64_t ranks = has_virtual_ranks ? 2 * processes : processes;
  const SmokeSamples samples{.train = ranks * batch * accumulation * kStepsPerEpoch,
                             .held_out = 2 * ranks * batch};
  small.add("/resume=auto");
  small.add("/log/progress=never");
  small.set("/train/batch_size", batch);
  if (has_virtual_ranks) small.set("/train/virtual_ranks", ranks);
  small.set("/train/accumulation_steps", accumulation);
  small.set_at_most("/train/eval_batch_size", kBatch);
  small.set("/train/eval_every_epochs", std::min<std::int64_t>(small.value("/train/eval_every_epochs"), 1));
  small.set_at_most("/data/train_samples", samples.train);
  small.set_at_most("/data/test_samples", samples.held_out);
  if (reduces_at_epochs(job.at("schedule")))
    small.add("/schedule=" + reduced_at_once(job.at("schedule")).dump());
  small.set("/schedule/warmup_steps", std::min<std::int64_t>(small.value("/schedule/warmup_steps"), 1));
  small.set("/train/epochs", kSteps);
  small.set("/train/max_steps", kSteps);
  small.set("/checkpoint/every_epochs", 1);
  small.set("/checkpoint/every_steps", kStepsPerEpoch);
  small.set("/checkpoint/keep", kSteps);
  if (small.value("/early_stopping/patience") > 0) small.set("/early_stopping/patience", 1'000'000);
  if (small.value("/divergence_check") > 0) small.set("/divergence_check", 2);
  small.set_at_most("/log/every_steps", 1);
  if (small.value("/log/sample_tokens") > 0) small.set_at_most("/log/sample_tokens", kBatch);
  if (small.value("/log/trace/steps") > 0) {
    small.add("/log/trace/first_step=1");
    small.add("/log/trace/steps=1");
  }
  for (const auto& [name, entry] : job.at("evaluate").items())
    small.set_at_most("/evaluate/" + name + "/test_samples", samples.held_out);
  return {.settings = small.take(), .samples = samples};
}

std::vector<std::string> offline_settings(const std::string& pointer, const json& data) {
  std::vector<std::string> settings;
  for (const char* setting :
       {"download=false", "download_from=null", "download_timeout_s=30", "keep_tokens=false"}) {
    const std::string_view key = std::string_view(setting).substr(0, std::string_view(setting).find('='));
    if (data.contains(key)) settings.push_back(fmt::format("{}/{}", pointer, setting));
  }
  return settings;
}

}  // namespace ddprun::commands
