#include "tests/scenario/membership/job_promises.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::membership::testing {

using namespace std::chrono_literals;

void JobPromises::seated(MemberId id, int host, Generation generation) {
  seated_.emplace(id, Seated{host, this->host(host).agent, generation});
}

void JobPromises::generation_begins(TimePoint now, std::optional<Duration> calm_delay) {
  check_not_given_up(now);
  // After a time-out of a node that had a part in the job, nothing begins that it did not cross on its way.
  for (const auto& [id, seated] : seated_) {
    const std::optional<TimePoint> over = calm_delay ? seated.agent->time_over_at() : std::nullopt;
    if (over && now > *over + *calm_delay)
      broke(fmt::format("a generation begins {} ms after the time of {} was over", (now - *over) / 1ms,
                        seated.agent->host()));
  }
  seated_.clear();
}

void JobPromises::note_work(const Job& job, TimePoint now) {
  if (job.state() == JobPhase::kEnded && ended_at_ == TimePoint{}) {
    ended_at_ = now;
    check_cause(job, now);
  }
  if (job.state() != JobPhase::kRunning) return;
  int working = 0;
  for (const SimHost& host : hosts_) {
    if (host.agent == nullptr) continue;
    const Generation generation = job.generation();
    const bool works = host.agent->running() == generation || host.agent->succeeded() == generation ||
                       host.succeeded == generation;
    working += works ? 1 : 0;
  }
  if (working >= spec_.min_nodes) last_work_ = now;
}

void JobPromises::check_progress(const Job& job, TimePoint now, TimePoint job_clock) {
  if (job.state() == JobPhase::kEnded) return check_end(job, now);
  for (const SimHost& host : hosts_) {
    const std::optional<TimePoint> over = host.is_up() ? host.agent->time_over_at() : std::nullopt;
    if (over && now - *over > patience())
      return broke(fmt::format("the time of {} was over long ago", host.name));
  }
  if (now - last_work_ <= patience()) return;
  int alive = 0;
  for (const SimHost& host : hosts_) alive += host.is_up() ? 1 : 0;
  if (job.state() == JobPhase::kGathering && alive < spec_.min_nodes) return;
  broke(fmt::format("{} in generation {}, and no {} nodes have worked for {} ms, with {} alive: {}",
                    to_string(job.state()), job.generation(), spec_.min_nodes, (now - last_work_) / 1ms,
                    alive, job.describe(job_clock)));
}

// Every agent ends when the job has, and says what it was told.
void JobPromises::check_end(const Job& job, TimePoint now) {
  if (now - ended_at_ < 2s) return;
  for (const SimHost& host : hosts_) {
    if (host.is_up()) return broke(fmt::format("{} goes on after the end of the job", host.name));
    if (host.agent != nullptr && host.agent->running())
      return broke(fmt::format("{} has workers after the end of the job", host.name));
  }
  for (const auto& agent : agents_) check_what_it_says(job, agent);
}

void JobPromises::check_what_it_says(const Job& job, const SimAgent& agent) {
  if (!agent.told_end() || agent.was_told_to_leave() || !agent.exit_code()) return;
  if (*agent.told_end() != job.end()) return broke("a node was told another end of the job");
  if (*agent.exit_code() != job.end().exit_code) broke("a node exits with another code than the job's");
}

// The cause of a failed job is a worker that failed by itself in its last generation, or one that left with 0
// while others waited for it. A coordinator that stood still makes no worker do so.
void JobPromises::check_cause(const Job& job, TimePoint now) {
  const JobEnd& end = job.end();
  if (end.exit_code != 0 && end.why.empty()) return broke("a job failed without a word");
  if (end.exit_code != 0) check_not_given_up(now);
  const bool is_of_a_node = end.why.starts_with("node ");  // and not of those who did not come
  const bool blames_pause = is_of_a_node && end.why.find("coordinator stood still") != std::string::npos;
  if (blames_pause && failures_told_.contains(job.generation()))
    broke("a pause of the coordinator is blamed, where a worker had failed by itself: " + end.why);
  if (!end.root_cause) return;
  const bool is_right = std::any_of(agents_.begin(), agents_.end(), [&](const auto& agent) {
    const bool has_left = end.root_cause->has_left && agent.left_in(job.generation());
    return agent.host() == end.root_cause->host && (has_left || agent.failed_in(job.generation()));
  });
  if (!is_right) broke(fmt::format("{} is blamed, where no worker failed", end.root_cause->host));
}

// When all workers of all nodes have ended well, the job has: no pause, lost lease or lost connection
// undoes that, and nothing is run again. But for a node that is gone, was told to leave, or did not come
// back in time.
void JobPromises::check_not_given_up(TimePoint now) {
  std::set<int> hosts;  // one may sit in two places, where a hello of it came late
  const auto has_succeeded = [&](const auto& entry) {
    const Seated& seated = entry.second;
    const auto heard = heard_at_.find(seated.host);
    const bool is_there = host(seated.host).agent == seated.agent && seated.agent->is_alive() &&
                          heard != heard_at_.end() && now - heard->second < rejoin_time_;
    return is_there && hosts.insert(seated.host).second && !seated.agent->was_told_to_leave() &&
           seated.agent->worked_well_in() == seated.generation;
  };
  if (!seated_.empty() && std::all_of(seated_.begin(), seated_.end(), has_succeeded)) {
    broke(fmt::format("generation {} is given up, and all its workers had succeeded",
                      seated_.begin()->second.generation));
  }
}

void JobPromises::broke(std::string sentence) {
  for (const SimHost& host : hosts_) {
    if (host.agent != nullptr) sentence += "\n  " + host.agent->describe();
  }
  promises_.broke(std::move(sentence));
}

}  // namespace ddprun::membership::testing
