#include <ddprun/scheduled_groups.h>

#include <algorithm>

namespace ddprun {

std::optional<double> ScheduledGroups::entry(std::size_t group, std::string_view name) const {
  if (group >= entries_.size()) return std::nullopt;
  for (const auto& [key, value] : entries_[group]) {
    if (key == name) return value;
  }
  return std::nullopt;
}

void ScheduledGroups::set_entry(std::size_t group, std::string_view name, double value) {
  if (group >= entries_.size()) entries_.resize(group + 1);
  auto& entries = entries_[group];
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.first == name; });
  if (found == entries.end()) {
    entries.emplace_back(name, value);
  } else {
    found->second = value;
  }
}

std::vector<ScheduledGroups::Entry> ScheduledGroups::entries(std::size_t group) const {
  return group < entries_.size() ? entries_[group] : std::vector<Entry>();
}

}  // namespace ddprun
