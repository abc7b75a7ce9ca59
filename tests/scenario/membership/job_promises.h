#pragma once

#include "rendezvous/membership/job.h"
#include "tests/scenario/membership/promises.h"
#include "tests/scenario/membership/sim_agent.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ddprun::membership::testing {

/// A machine: its clock, its line, and the agent that runs there, if one does.
struct SimHost {
  [[nodiscard]] bool is_up() const { return agent != nullptr && agent->is_alive(); }
  [[nodiscard]] bool has_ended() const { return agent != nullptr && agent->exit_code().has_value(); }

  std::string name;
  bool sends = true;  ///< its messages reach the coordinator
  bool hears = true;  ///< the coordinator's reach it
  SimAgent* agent = nullptr;
  std::optional<Generation> succeeded;  ///< the last of the agents before
  MemberId id;                          ///< of the agent's connection
  std::optional<MemberId> was;
  Duration clock_ahead{};     ///< how far its clock has jumped
  int clock_permille = 1000;  ///< how fast it runs
};

/// What a job promises as a whole: it gets on or ends, all hear the same end, its cause is one, and no success is
/// undone. Held against what hosts and coordinator do; a broken one is told to `Promises`.
class JobPromises {
 public:
  /// All outlive it. `agents` are all there ever were.
  JobPromises(Promises& promises, const JobSpec& spec, Duration rejoin_time, const std::deque<SimHost>& hosts,
              const std::deque<SimAgent>& agents)
      : promises_(promises), spec_(spec), rejoin_time_(rejoin_time), hosts_(hosts), agents_(agents) {}

  /// The coordinator has heard a host, or that a worker failed by itself.
  void heard(int host, TimePoint now) { heard_at_[host] = now; }
  void failure_told(Generation generation) { failures_told_.insert(generation); }
  /// It gives a seat to the agent that a host has now.
  void seated(MemberId id, int host, Generation generation);
  /// `calm_delay`: nothing happens to nodes and network, and messages come as soon.
  void generation_begins(TimePoint now, std::optional<Duration> calm_delay);
  void coordinator_is_new() { failures_told_.clear(), heard_at_.clear(); }

  /// Now and then.
  void note_work(const Job& job, TimePoint now);
  /// When all is over.
  void check_progress(const Job& job, TimePoint now, TimePoint job_clock);

 private:
  struct Seated {
    int host;
    const SimAgent* agent;
    Generation generation;
  };

  void check_end(const Job& job, TimePoint now);
  void check_what_it_says(const Job& job, const SimAgent& agent);
  void check_cause(const Job& job, TimePoint now);
  void check_not_given_up(TimePoint now);
  void broke(std::string sentence);
  [[nodiscard]] const SimHost& host(int number) const { return hosts_[static_cast<std::size_t>(number)]; }
  /// Stopping, waiting for who may come back, a back-off, and a start take less.
  [[nodiscard]] Duration patience() const { return std::chrono::seconds(3) + rejoin_time_; }

  Promises& promises_;
  const JobSpec& spec_;
  const Duration rejoin_time_;
  const std::deque<SimHost>& hosts_;
  const std::deque<SimAgent>& agents_;
  std::map<MemberId, Seated> seated_;   ///< in the last generation
  std::map<int, TimePoint> heard_at_;   ///< by this coordinator, by host
  std::set<Generation> failures_told_;  ///< in which a worker failed by itself, and the coordinator heard it
  TimePoint last_work_{};
  TimePoint ended_at_{};
};

}  // namespace ddprun::membership::testing
