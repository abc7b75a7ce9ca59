#include "launcher/output/line_folder.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::launcher {

std::string rank_ranges(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].value() == ranks[last].value() + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? to_string(ranks[first]) : fmt::format("{}-{}", ranks[first], ranks[last]);
    first = last + 1;
  }
  return text;
}

void LineFolder::add(Rank rank, std::string_view line, TimePoint now) {
  std::size_t& next = next_[rank];
  for (std::size_t position = std::max(next, taken_); position < taken_ + entries_.size(); ++position) {
    Entry& entry = entries_[position - taken_];
    if (entry.line != line) continue;
    entry.ranks.push_back(rank);
    next = position + 1;
    return;
  }
  entries_.push_back({std::string(line), {rank}, now});
  next = taken_ + entries_.size();
}

std::string LineFolder::pop_ready(TimePoint now) {
  std::string text;
  while (!entries_.empty()) {
    const Entry& front = entries_.front();
    const bool is_complete = front.ranks.size() >= ranks_.size();
    if (!is_complete && now < front.first_seen + window_ && entries_.size() <= kMostEntries) break;
    text += pop_front();
  }
  return text;
}

std::string LineFolder::pop_all() {
  std::string text;
  while (!entries_.empty()) text += pop_front();
  return text;
}

std::optional<TimePoint> LineFolder::next_deadline() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.front().first_seen + window_;
}

std::string LineFolder::render(Entry& entry) {
  std::sort(entry.ranks.begin(), entry.ranks.end());
  return fmt::format("[{}] {}\n", rank_ranges(entry.ranks), entry.line);
}

std::string LineFolder::pop_front() {
  std::string text = render(entries_.front());
  entries_.pop_front();
  ++taken_;
  return text;
}

}  // namespace ddprun::launcher
