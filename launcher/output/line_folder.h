#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/ids.h"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// "0-7", "0,2-3": ranks as people write them.
std::string rank_ranges(const std::vector<Rank>& ranks);

/// Folds what several ranks print alike into one line: "[0-7] epoch 1". Pure.
///
/// A line waits until every rank has printed it or the window is over; lines come out in the order of their
/// first arrival, and the lines of one rank never overtake each other.
class LineFolder {
 public:
  LineFolder(std::vector<Rank> ranks, Duration window) : ranks_(std::move(ranks)), window_(window) {}

  /// A line without its '\n'.
  void add(Rank rank, std::string_view line, TimePoint now);
  /// What may be shown at `now`, each line complete with its ranks and '\n'.
  std::string pop_ready(TimePoint now);
  std::string pop_all();
  /// When pop_ready has something to give at the latest.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

 private:
  struct Entry {
    std::string line;
    std::vector<Rank> ranks;
    TimePoint first_seen;
  };
  static constexpr std::size_t kMostEntries = 4096;

  static std::string render(Entry& entry);
  std::string pop_front();

  std::vector<Rank> ranks_;
  Duration window_;
  std::deque<Entry> entries_;
  std::size_t taken_ = 0;             // entries that left: positions below are absolute
  std::map<Rank, std::size_t> next_;  // first position where a line of this rank may join
};

}  // namespace ddprun::launcher
