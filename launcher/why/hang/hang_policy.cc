#include "launcher/why/hang/hang_policy.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun::launcher::why {
namespace {

/// Of one rank; `is_recorded`: of any.
bool is_progress(const Pulse& before, const Pulse& now, bool is_recorded) {
  if (before.pid != now.pid) return true;
  const bool has_received =
      std::any_of(now.received.begin(), now.received.end(), [&](const auto& connection) {
        const auto earlier = before.received.find(connection.first);
        return earlier != before.received.end() && earlier->second != connection.second;
      });
  if (has_received) return true;
  if (!is_recorded) return now.is_busy;
  return before.records != now.records || before.next != now.next || before.pending != now.pending ||
         before.beats != now.beats;
}

bool is_accused(const Verdict& verdict, int rank) {
  return std::find(verdict.guilty.begin(), verdict.guilty.end(), rank) != verdict.guilty.end();
}

bool is_waiting(const Verdict& verdict, int rank) {
  return std::find(verdict.waiting.begin(), verdict.waiting.end(), rank) != verdict.waiting.end();
}

/// Whether all that are guilty were seen to wait for nobody: who waits may wait for a rank on another host.
bool is_known_here(const Verdict& verdict) {
  const auto known = std::count_if(verdict.ranks.begin(), verdict.ranks.end(), [&](const RankVerdict& rank) {
    return is_accused(verdict, rank.rank) && !awaits_others(rank.activity);
  });
  return known > 0 && static_cast<std::size_t>(known) == verdict.guilty.size();
}

/// Of two equal camps in different collectives all are accused, and each of them waits.
bool is_somebody_waiting(const Verdict& verdict) {
  return !verdict.waiting.empty() ||
         std::any_of(verdict.ranks.begin(), verdict.ranks.end(),
                     [](const RankVerdict& rank) { return waits(rank.activity.doing); });
}

/// Whether all ranks are stopped, so that none can wait: by accident, or by somebody who wants the processors for a
/// while.
bool are_all_stopped(const Verdict& verdict) {
  return !verdict.ranks.empty() &&
         std::all_of(verdict.ranks.begin(), verdict.ranks.end(),
                     [](const RankVerdict& rank) { return rank.activity.doing == Doing::kStopped; });
}

/// Whether somebody accused is stopped or frozen, as all are that Ctrl-Z, Slurm or a container's pause stop one after
/// the other.
bool is_held(const Verdict& verdict) {
  return std::any_of(verdict.ranks.begin(), verdict.ranks.end(), [&](const RankVerdict& rank) {
    return is_accused(verdict, rank.rank) &&
           (rank.activity.doing == Doing::kStopped || rank.activity.doing == Doing::kFrozen);
  });
}

/// Whether a time-out may end it that nobody has asked for: a healthy job that is ended is worse than a hang. Whoever
/// seems to do nothing may have a thread that does, and may wait for a file server or for its own network.
bool is_beyond_doubt(const Verdict& verdict) {
  if (verdict.health != Health::kStuck || verdict.guilty.empty() || verdict.confidence == Confidence::kGuess)
    return false;
  return std::all_of(verdict.ranks.begin(), verdict.ranks.end(), [&](const RankVerdict& rank) {
    return !is_accused(verdict, rank.rank) || rank.activity.doing == Doing::kStopped ||
           rank.activity.doing == Doing::kEnded;
  });
}

bool is_debugged(const Verdict& verdict) {
  return std::any_of(verdict.ranks.begin(), verdict.ranks.end(),
                     [](const RankVerdict& rank) { return rank.activity.doing == Doing::kTraced; });
}

}  // namespace

bool have_ended(const Verdict& verdict) {
  return std::all_of(verdict.ranks.begin(), verdict.ranks.end(), [&](const RankVerdict& rank) {
    return !is_accused(verdict, rank.rank) || rank.activity.doing == Doing::kEnded;
  });
}

bool asks_others(const Verdict& here, bool is_time_over) {
  const auto any = [&](auto is_it) {
    return std::any_of(here.ranks.begin(), here.ranks.end(),
                       [&](const RankVerdict& rank) { return is_it(rank.activity); });
  };
  const bool is_anybody_idle = any(
      [](const Activity& activity) { return activity.doing != Doing::kWaits && !gets_on(activity.doing); });
  const bool is_wrong_here = here.health == Health::kStuck && !here.guilty.empty();
  if (is_time_over || is_anybody_idle || is_wrong_here) return true;
  const bool all_wait = !any([](const Activity& activity) { return !awaits_others(activity); });
  return all_wait && !here.ranks.empty() && here.ranks.front().rank == 0;
}

double HangLimits::first_s() const {
  if (report_s <= 0) return timeout_s;
  return timeout_s <= 0 ? report_s : std::min(report_s, timeout_s);
}

void add_messages(std::vector<Pulse>& pulses, const std::vector<std::map<std::string, Received>>& of_ranks) {
  std::map<std::string, std::size_t> ends;  // whose they are
  for (std::size_t i = 0; i < of_ranks.size(); ++i) {
    for (const auto& [inode, connection] : of_ranks[i]) ends[connection.local] = i;
  }
  for (std::size_t i = 0; i < pulses.size(); ++i) {
    for (const auto& [inode, connection] : of_ranks[i]) {
      const auto sender = ends.find(connection.remote);
      if (sender != ends.end() && sender->second != i)
        pulses[i].received[connection.remote] = connection.bytes;
    }
  }
}

bool HangPolicy::note(std::vector<Pulse> pulses, double now) {
  const bool is_due = is_look_due(std::move(pulses), now);
  is_held_ = is_held_ && is_due;
  return is_due;
}

bool HangPolicy::is_look_due(std::vector<Pulse> pulses, double now) {
  const bool is_recorded =
      std::any_of(pulses.begin(), pulses.end(), [](const Pulse& pulse) { return pulse.records; });
  moved_at_.resize(pulses.size(), now);
  has_moved_ = false;
  bool has_reported_moved = false;
  for (std::size_t i = 0; i < pulses.size(); ++i) {
    if (i >= last_.size() || is_progress(last_[i], pulses[i], true)) shown_at_ = now;
    if (i < last_.size() && !is_progress(last_[i], pulses[i], is_recorded)) continue;
    has_moved_ = true;
    has_reported_moved = has_reported_moved || reported_.contains(pulses[i].rank);
    moved_at_[i] = now;
  }
  last_ = std::move(pulses);
  if (has_reported_moved) reported_.clear();
  if (has_moved_) {
    progress_at_ = now;
    is_all_told_ = false;
    accused_at_ = -1;
  }
  double since = progress_at_;
  for (std::size_t i = 0; i < last_.size(); ++i) {
    if (last_[i].pending > 0) since = std::min(since, moved_at_[i]);
  }
  if (since > quiet_since_) look_again_at_ = 0;
  quiet_since_ = since;
  const bool may_look = limits_.is_asked || std::any_of(last_.begin(), last_.end(),
                                                        [](const Pulse& pulse) { return pulse.has_torch; });
  if (!may_look) return false;
  // However long a part of the job has been quiet before: this is the first look at all of them.
  const double first_s = limits_.first_s();
  const bool is_first = quiet_s(now) >= first_s && looked_at_ < progress_at_ + first_s;
  if (now < look_again_at_ && !is_first) return false;
  const bool may_report = limits_.report_s > 0 && !is_all_told_ && now - quiet_since_ >= limits_.report_s;
  const bool may_end = limits_.timeout_s > 0 && quiet_s(now) >= limits_.timeout_s;
  return may_report || may_end;
}

bool HangPolicy::is_here(int rank) const {
  return std::any_of(last_.begin(), last_.end(), [&](const Pulse& pulse) { return pulse.rank == rank; });
}

double HangPolicy::quiet_s(const Verdict& verdict, double now) const {
  const bool are_here =
      std::all_of(verdict.guilty.begin(), verdict.guilty.end(), [&](int rank) { return is_here(rank); });
  if (!verdict.is_of_part || !are_here) return quiet_s(now);
  double latest = -1;
  for (std::size_t i = 0; i < last_.size(); ++i) {
    if (is_accused(verdict, last_[i].rank) || is_waiting(verdict, last_[i].rank))
      latest = std::max(latest, moved_at_[i]);
  }
  return latest < 0 ? quiet_s(now) : now - latest;
}

double HangPolicy::lasted_s(const Verdict& verdict, double quiet, double now) {
  if (limits_.is_alone) return verdict.waited_s >= 0 ? std::min(quiet, verdict.waited_s) : quiet;
  if (accused_at_ < 0 || verdict.guilty != accused_) accused_at_ = now;
  accused_ = verdict.guilty;
  return std::min(quiet, verdict.waited_s >= 0 ? verdict.waited_s : now - accused_at_);
}

bool HangPolicy::is_news(const Verdict& verdict) const {
  if (is_all_told_) return false;
  return reported_.empty() || std::any_of(verdict.guilty.begin(), verdict.guilty.end(),
                                          [&](int rank) { return !reported_.contains(rank); });
}

HangPolicy::Say HangPolicy::decide(const Verdict& verdict, const Sight& sight, double now) {
  looked_at_ = now;
  // The longer it has been quiet, the less often is looked; but what begins to hang meanwhile is told in time. Of a job
  // that gets on elsewhere, who waits long may do so on purpose.
  look_again_at_ = progress_at_ > quiet_since_ ? now + (now - quiet_since_) / 2
                                               : now + std::min(quiet_s(now), limits_.first_s()) / 4;
  const double end_at = progress_at_ + limits_.timeout_s;
  if (limits_.timeout_s > 0 && now < end_at) look_again_at_ = std::min(look_again_at_, end_at);
  const bool was_held = std::exchange(is_held_, is_held(verdict));
  if (is_held_ && !was_held) {
    look_again_at_ = now;
    return Say::kNothing;
  }
  const bool is_stuck = verdict.health == Health::kStuck;
  const bool are_stopped = sight.sees_all && are_all_stopped(verdict);
  if ((!is_stuck && verdict.health != Health::kLate) || (!is_somebody_waiting(verdict) && !are_stopped) ||
      is_debugged(verdict)) {
    accused_at_ = -1;
    return Say::kNothing;
  }
  if (!sight.has_asked || (verdict.guilty.empty() && sight.has_siblings)) return Say::kNothing;
  const double lasted = lasted_s(verdict, quiet_s(now), now);
  const bool others_move = !limits_.is_alone && verdict.moved_s >= 0 && verdict.moved_s < limits_.timeout_s;
  // Whether others wait for one that has ended, the ranks that were not seen would say.
  const bool is_known = sight.sees_all || (is_known_here(verdict) && !have_ended(verdict));
  const bool is_clear = sight.sees_all || verdict.confidence != Confidence::kGuess;
  const bool may_end = (limits_.is_timeout_asked || (is_beyond_doubt(verdict) && !are_stopped)) && is_known &&
                       is_clear && !others_move;
  const bool is_over = may_end && limits_.timeout_s > 0 && lasted >= limits_.timeout_s;
  // Where all the guilty have ended, their node may have no watch any more.
  const bool is_ours = verdict.guilty.empty()
                           ? sight.has_rank_0
                           : sight.has_guilty || (have_ended(verdict) && sight.has_waiting);
  if (is_over && (is_ours || (sight.has_rank_0 && lasted >= 2 * limits_.timeout_s))) return Say::kEnd;
  if (!limits_.is_asked && !is_known) return Say::kNothing;
  const bool may_report =
      is_stuck && limits_.report_s > 0 && lasted_s(verdict, quiet_s(verdict, now), now) >= limits_.report_s;
  return (may_report || is_over) && is_news(verdict) ? Say::kReport : Say::kNothing;
}

void HangPolicy::told(const Verdict& verdict, double now) {
  reported_.insert(verdict.guilty.begin(), verdict.guilty.end());
  reported_.insert(verdict.waiting.begin(), verdict.waiting.end());
  is_all_told_ = quiet_s(now) >= limits_.first_s();
}

}  // namespace ddprun::launcher::why
