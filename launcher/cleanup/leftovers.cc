#include "launcher/cleanup/leftovers.h"

#include "launcher/cleanup/resource_tracker.h"
#include "launcher/process/process_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr auto kAskedTime = std::chrono::seconds(1);
constexpr auto kKilledTime = std::chrono::seconds(2);
constexpr auto kLongestKilledTime = 5 * kKilledTime;  // where new ones keep coming
// A process that forks while it is killed leaves a child we hear nothing of until it ends: look again soon.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

}  // namespace

void LeftoverSweep::start(SweepMode mode, std::function<bool(const ProcessEntry&)> is_left,
                          std::function<void(Leftovers)> on_done) {
  const TimePoint now = BootClock::now();
  mode_ = mode;
  is_left_ = std::move(is_left);
  on_done_ = std::move(on_done);
  signalled_.clear();
  killed_.clear();
  first_kill_.reset();
  result_ = {};
  kill_at_ = mode == SweepMode::kAskFirst ? now + kAskedTime : now;
  look();
}

void LeftoverSweep::children_changed() {
  if (is_running()) look();
}

std::vector<pid_t> LeftoverSweep::living() const {
  std::vector<pid_t> result;
  for (const pid_t pid : read_own_children()) {
    const std::optional<ProcessEntry> child = read_process(pid);
    if (child && is_left_(*child)) result.push_back(pid);
  }
  return result;
}

void LeftoverSweep::look() {
  const std::vector<pid_t> left = living();
  const TimePoint now = BootClock::now();
  if (left.empty()) return finish();
  if (is_to_give_up(left, now)) {
    for (const pid_t pid : left) note_survivor(pid);
    return finish();
  }
  const bool kills = now >= kill_at_;
  bool spared_one = false;
  for (const pid_t pid : left) {
    if (now < kill_at_ + kResourceTrackerTime && is_resource_tracker(pid)) {
      spared_one = true;
      continue;
    }
    const bool is_new = !signalled_.contains(pid);
    if (is_new) {
      const std::optional<ProcessEntry> process = read_process(pid);
      signalled_[pid] = process && !process->has_ended() ? name_of(*process) : std::string();
    }
    if (kills) {
      if (!first_kill_) first_kill_ = now;
      killed_.emplace(pid, now);
      ::kill(pid, SIGKILL);
    } else if (is_new) {
      ::kill(pid, SIGTERM);
      ::kill(pid, SIGCONT);
    }
  }
  arm(kills || spared_one ? now + kLookAgain : kill_at_);
}

// Each has its own time: trackers are killed last, and after a pause of this process somebody may not have been yet.
bool LeftoverSweep::is_to_give_up(const std::vector<pid_t>& left, TimePoint now) const {
  if (!first_kill_) return false;
  const auto had_its_time = [&](pid_t pid) {
    const auto killed = killed_.find(pid);
    return killed != killed_.end() && now >= killed->second + kKilledTime;
  };
  return now >= *first_kill_ + kLongestKilledTime || std::all_of(left.begin(), left.end(), had_its_time);
}

void LeftoverSweep::note_survivor(pid_t pid) {
  const std::optional<ProcessEntry> process = read_process(pid);
  if (!process || process->has_ended()) return;
  result_.surviving.push_back(fmt::format("{}, in state {}", name_of(*process), describe_stuck(pid)));
  signalled_.erase(pid);
}

void LeftoverSweep::arm(TimePoint at) {
  timer_.set_at(at, [this] { look(); });
}

void LeftoverSweep::finish() {
  timer_.cancel();
  for (auto& [pid, name] : signalled_) {
    if (!name.empty()) result_.ended.push_back(std::move(name));
  }
  std::exchange(on_done_, nullptr)(std::move(result_));
}

}  // namespace ddprun::launcher
