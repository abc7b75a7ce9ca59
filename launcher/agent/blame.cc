#include "launcher/agent/blame.h"

#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

using Workers = std::span<const SupervisedWorker>;

const SupervisedWorker& at(Workers workers, LocalRank local_rank) {
  return workers[static_cast<std::size_t>(local_rank.value())];
}

bool has_left(const SupervisedWorker& worker) { return worker.status && worker.status->is_success(); }
bool has_failed(const SupervisedWorker& worker) { return worker.status && !worker.status->is_success(); }

TimePoint failed_at(const SupervisedWorker& ended) {
  return std::min(ended.ended_at, ended.ending.failed_at.value_or(ended.ended_at));
}

bool explains_more(const SupervisedWorker& candidate, const SupervisedWorker& than) {
  const Weight weight = candidate.ending.weight;
  const Weight other = than.ending.weight;
  return weight != other ? weight > other : failed_at(candidate) < failed_at(than);
}

LocalRank heaviest(Workers workers) {
  std::optional<LocalRank> best;
  for (std::size_t index = 0; index < workers.size(); ++index) {
    if (!has_failed(workers[index])) continue;
    if (!best || explains_more(workers[index], at(workers, *best))) best = LocalRank(static_cast<int>(index));
  }
  return *best;
}

std::optional<LocalRank> first_suspended(Workers workers, const SupervisedWorker* but = nullptr) {
  const auto found = std::find_if(workers.begin(), workers.end(), [but](const SupervisedWorker& worker) {
    return &worker != but && stood_still(worker);
  });
  if (found == workers.end()) return std::nullopt;
  return LocalRank(static_cast<int>(found - workers.begin()));
}

std::optional<LocalRank> who_was_lost(Workers workers, const SupervisedWorker& first_failure) {
  if (first_failure.ending.weight != Weight::kSymptom) return {};
  const TimePoint failed = failed_at(first_failure);
  std::optional<LocalRank> before;
  std::optional<LocalRank> after;
  for (std::size_t index = 0; index < workers.size(); ++index) {
    const SupervisedWorker& worker = workers[index];
    if (!has_left(worker)) continue;
    std::optional<LocalRank>& found = worker.ended_at <= failed ? before : after;
    const bool is_nearer =
        !found || (worker.ended_at <= failed) == (at(workers, *found).ended_at < worker.ended_at);
    if (is_nearer) found = LocalRank(static_cast<int>(index));
  }
  if (before) return before;
  // It is silent, but the connections of one that is stopped stay open.
  const std::optional<LocalRank> suspended =
      has_waited_in_vain(workers) ? first_suspended(workers, &first_failure) : std::nullopt;
  return suspended ? suspended : after;
}

std::string describe_lost(const SupervisedWorker& worker) {
  return has_left(worker) ? describe_leaving(worker) : describe_standstill(worker);
}

/// Whether `ended` failed of its own doing, although the group was being stopped by then.
bool is_own_cause(const SupervisedWorker& ended) {
  return has_failed(ended) && ended.ending.is_own_failure && ended.ending.weight == Weight::kCause;
}

Blame blame_for_failing(Workers workers, LocalRank guilty, bool first_was_a_cause) {
  const SupervisedWorker& failed = at(workers, guilty);
  // What a traceback or an error file says came before our signal, which then ended it.
  const bool is_by_us = failed.stopped_with && failed.status->is_killed() && failed.ending.is_own_failure &&
                        failed.status->signal() == *failed.stopped_with;
  if (!is_by_us)
    return {.guilty = guilty, .why = describe_end(failed), .exit_code = failed.status->exit_code()};
  std::string why = fmt::format("{} failed after {}: {}", name_of(failed),
                                format_duration(failed_at(failed) - failed.started_at), failed.ending.error);
  // Without an exit code of its own it has that of who ended first, if that was no symptom: several ranks
  // often fail of the same.
  return {.guilty = guilty,
          .why = std::move(why),
          .exit_code = first_was_a_cause ? std::nullopt : std::optional(1)};
}

}  // namespace

std::string name_of(const SupervisedWorker& worker) {
  if (worker.pid == 0) return fmt::format("rank {}", worker.rank);
  return fmt::format("rank {} (pid {})", worker.rank, worker.pid);
}

std::string describe_end(const SupervisedWorker& ended) {
  const std::string symptom = ended.ending.symptom.empty() ? std::string() : ": " + ended.ending.symptom;
  return fmt::format("{} {} after {}{}", name_of(ended), to_string(*ended.status),
                     format_duration(ended.ended_at - ended.started_at), symptom);
}

std::string describe_leaving(const SupervisedWorker& left) {
  return fmt::format("{} left with exit code 0 after {}, while others waited for it", name_of(left),
                     format_duration(left.ended_at - left.started_at));
}

std::string describe_standstill(const SupervisedWorker& suspended) {
  return fmt::format("{} was stopped by a signal (SIGSTOP), while others waited for it", name_of(suspended));
}

bool stood_still(const SupervisedWorker& worker) {
  return worker.was_suspended && !has_left(worker) &&
         (!has_failed(worker) || worker.ending.weight == Weight::kSymptom);
}

bool has_waited_in_vain(Workers workers) {
  return std::any_of(workers.begin(), workers.end(), [](const SupervisedWorker& worker) {
    return has_failed(worker) && worker.ending.weight == Weight::kSymptom && worker.ending.waited_in_vain;
  });
}

bool have_succeeded_unasked(Workers workers) {
  return std::all_of(workers.begin(), workers.end(),
                     [](const SupervisedWorker& worker) { return has_left(worker) && !worker.stopped_with; });
}

Blame blame(Workers workers) {
  const LocalRank first = heaviest(workers);
  const SupervisedWorker& victim = at(workers, first);
  const std::optional<LocalRank> lost = who_was_lost(workers, victim);
  if (!lost) return blame_for_failing(workers, first, false);
  return {.guilty = *lost,
          .why = fmt::format("{}: {}", describe_lost(at(workers, *lost)), describe_end(victim)),
          .exit_code = victim.status->exit_code(),
          .victim = first};
}

std::optional<Blame> blame_until_now(Workers workers) {
  if (std::any_of(workers.begin(), workers.end(), has_failed)) return blame(workers);
  std::optional<LocalRank> first;
  for (std::size_t index = 0; index < workers.size(); ++index) {
    if (!has_left(workers[index])) continue;
    if (!first || workers[index].ended_at < at(workers, *first).ended_at)
      first = LocalRank(static_cast<int>(index));
  }
  if (!first) first = first_suspended(workers);
  if (!first) return std::nullopt;
  return Blame{.guilty = *first, .why = describe_lost(at(workers, *first))};
}

std::optional<Blame> reconsider(Workers workers, std::optional<LocalRank> root, LocalRank ended) {
  const SupervisedWorker& candidate = at(workers, ended);
  if (root == ended || !is_own_cause(candidate)) return std::nullopt;
  if (!root) return blame_for_failing(workers, ended, false);
  const SupervisedWorker& guilty = at(workers, *root);
  const bool is_weak = has_left(guilty) || guilty.was_suspended;
  if (!is_weak && !explains_more(candidate, guilty)) return std::nullopt;
  return blame_for_failing(workers, ended, !is_weak && guilty.ending.weight == Weight::kCause);
}

}  // namespace ddprun::launcher
