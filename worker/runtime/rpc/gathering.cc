#include "worker/runtime/rpc/gathering.h"

#include <algorithm>
#include <iterator>

namespace ddprun::runtime {

void Gathering::hear(const GatherCall& call) {
  const std::lock_guard lock(mutex_);
  Meeting& meeting = meetings_[call.sequence];
  switch (call.kind) {
    case GatherCall::Kind::kArrived:
      meeting.arrived.insert(call.worker);
      break;
    case GatherCall::Kind::kAllArrived:
      meeting.is_over = true;
      break;
    case GatherCall::Kind::kLost:
      lost_ = call.worker;
      break;
  }
  changed_.notify_all();
}

std::set<std::string> Gathering::missing_of(const Meeting& meeting, const std::set<std::string>& names) {
  std::set<std::string> missing;
  if (meeting.is_over) return missing;
  std::set_difference(names.begin(), names.end(), meeting.arrived.begin(), meeting.arrived.end(),
                      std::inserter(missing, missing.end()));
  return missing;
}

std::set<std::string> Gathering::missing(const std::string& sequence, const std::set<std::string>& names) {
  const std::lock_guard lock(mutex_);
  return missing_of(meetings_[sequence], names);
}

std::string Gathering::lost() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool Gathering::wait_until(const std::string& sequence, const std::set<std::string>& names,
                           std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(
      lock, deadline, [&] { return !lost_.empty() || missing_of(meetings_[sequence], names).empty(); });
}

void Gathering::forget(const std::string& sequence) {
  const std::lock_guard lock(mutex_);
  meetings_.erase(sequence);
}

}  // namespace ddprun::runtime
