#include "launcher/why/hang/hang_policy.h"

#include <algorithm>
#include <utility>

namespace ddprun::launcher::why {
namespace {

bool is_progress(const std::vector<Pulse>& before, const std::vector<Pulse>& now) {
  const bool is_recorded =
      std::any_of(now.begin(), now.end(), [](const Pulse& pulse) { return pulse.records; });
  if (!is_recorded) {
    return std::any_of(now.begin(), now.end(), [](const Pulse& pulse) { return pulse.is_busy; }) ||
           !std::equal(before.begin(), before.end(), now.begin(), now.end(),
                       [](const Pulse& a, const Pulse& b) { return a.pid == b.pid; });
  }
  return !std::equal(before.begin(), before.end(), now.begin(), now.end(),
                     [](const Pulse& a, const Pulse& b) {
                       return a.pid == b.pid && a.records == b.records && a.next == b.next &&
                              a.pending == b.pending && a.beats == b.beats;
                     });
}

bool is_accused(const Verdict& verdict, int rank) {
  return std::find(verdict.guilty.begin(), verdict.guilty.end(), rank) != verdict.guilty.end();
}

/// Whether somebody is guilty who waits for nobody: who waits may wait for a rank on another host.
bool is_known_here(const Verdict& verdict) {
  return std::any_of(verdict.ranks.begin(), verdict.ranks.end(), [&](const RankVerdict& rank) {
    return is_accused(verdict, rank.rank) && !waits(rank.activity.doing);
  });
}

/// Of two equal camps in different collectives all are accused, and each of them waits.
bool is_somebody_waiting(const Verdict& verdict) {
  return !verdict.waiting.empty() ||
         std::any_of(verdict.ranks.begin(), verdict.ranks.end(),
                     [](const RankVerdict& rank) { return waits(rank.activity.doing); });
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

double HangLimits::first_s() const {
  if (report_s <= 0) return timeout_s;
  return timeout_s <= 0 ? report_s : std::min(report_s, timeout_s);
}

bool HangPolicy::note(std::vector<Pulse> pulses, double now) {
  has_moved_ = is_progress(last_, pulses);
  last_ = std::move(pulses);
  if (has_moved_) {
    progress_at_ = now;
    look_again_at_ = 0;
    is_reported_ = false;
    accused_at_ = -1;
    return false;
  }
  const bool may_look = limits_.is_asked || std::any_of(last_.begin(), last_.end(),
                                                        [](const Pulse& pulse) { return pulse.has_torch; });
  if (!may_look || now < look_again_at_) return false;
  const double quiet = quiet_s(now);
  const bool may_report = limits_.report_s > 0 && !is_reported_ && quiet >= limits_.report_s;
  const bool may_end = limits_.timeout_s > 0 && quiet >= limits_.timeout_s;
  return may_report || may_end;
}

double HangPolicy::lasted_s(const Verdict& verdict, double now) {
  const double quiet = quiet_s(now);
  if (limits_.is_alone) return verdict.waited_s >= 0 ? std::min(quiet, verdict.waited_s) : quiet;
  if (accused_at_ < 0 || verdict.guilty != accused_) accused_at_ = now;
  accused_ = verdict.guilty;
  return std::min(quiet, verdict.waited_s >= 0 ? verdict.waited_s : now - accused_at_);
}

HangPolicy::Say HangPolicy::decide(const Verdict& verdict, const Sight& sight, double now) {
  const double quiet = quiet_s(now);
  // The longer it has been quiet, the less often is looked; but what begins to hang meanwhile is told in time.
  look_again_at_ = now + std::min(quiet, limits_.first_s()) / 4;
  const double end_at = progress_at_ + limits_.timeout_s;
  if (limits_.timeout_s > 0 && now < end_at) look_again_at_ = std::min(look_again_at_, end_at);
  const bool is_stuck = verdict.health == Health::kStuck;
  if ((!is_stuck && verdict.health != Health::kLate) || !is_somebody_waiting(verdict) ||
      is_debugged(verdict)) {
    accused_at_ = -1;
    return Say::kNothing;
  }
  const double lasted = lasted_s(verdict, now);
  const bool is_known = sight.sees_all || is_known_here(verdict);
  const bool may_end = (limits_.is_timeout_asked || is_beyond_doubt(verdict)) && is_known;
  const bool is_over = may_end && limits_.timeout_s > 0 && lasted >= limits_.timeout_s;
  const bool is_ours = verdict.guilty.empty() ? sight.has_rank_0 : sight.has_guilty;
  if (is_over && (is_ours || (sight.has_rank_0 && lasted >= 2 * limits_.timeout_s))) return Say::kEnd;
  if (!limits_.is_asked && !is_known) return Say::kNothing;
  const bool may_report = is_stuck && limits_.report_s > 0 && lasted >= limits_.report_s;
  if (is_reported_ || !(may_report || is_over)) return Say::kNothing;
  is_reported_ = true;
  return Say::kReport;
}

}  // namespace ddprun::launcher::why
