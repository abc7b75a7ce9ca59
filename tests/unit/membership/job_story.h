#pragma once

#include "rendezvous/membership/job.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::membership::testing {

using namespace std::chrono_literals;

inline const std::string kCoordinator = "this one";

/// A coordinator and nodes a, b, c … that answer at once and in order.
class Story {
 public:
  explicit Story(JobSpec spec, Timing timing = {}) : job(std::move(spec), timing, now, kCoordinator) {}

  void join(char name, std::optional<int> pin = std::nullopt, std::optional<char> was = std::nullopt,
            std::uint32_t heard_of = 0, std::string cut_off = {}, std::optional<Success> succeeded = {},
            Status first = {}) {
    NodeFacts facts{
        .id = id(name), .host = std::string(1, name), .address = "10.0.0." + std::to_string(name - 'a' + 1)};
    if (pin) facts.pinned = NodeRank(*pin);
    if (was) facts.replaces = id(*was);
    facts.last_generation = Generation(heard_of);
    facts.cut_off = std::move(cut_off);
    facts.succeeded = succeeded;
    facts.hosts_coordinator = host_of_coordinator == name;
    if (first != Status{}) first.sequence = ++sequence;
    take(job.joined(facts, now, first));
  }
  void tell(char name, Status status) {
    status.sequence = ++sequence;
    take(job.status(id(name), status, now));
  }
  void tell(char name, Phase phase) { tell(name, Status{.generation = job.generation(), .phase = phase}); }
  void fail(char name, int exit_code, bool do_not_restart = false, bool is_symptom = false) {
    NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)},
                        .host = std::string(1, name),
                        .exit_code = exit_code,
                        .what = "rank 0 exited with code 7"};
    if (do_not_restart) failure.final_because = "exit code 93 means: do not restart";
    if (is_symptom) failure.weight = Weight::kSymptom;
    tell(name, Status{.generation = job.generation(), .phase = Phase::kStopping, .failure = failure});
  }
  void drain(int rank) { take(job.drain(NodeRank(rank), now)); }
  void lose(char name, Loss loss = Loss::kClosed) { take(job.lost(id(name), loss, now)); }
  void end_for_all(const JobEnd& end) { take(job.end_for_all(end, now)); }
  void end_at_once() { take(job.end_at_once(now)); }
  /// Until workers of a lost node are certain to be gone; `names` have stopped theirs.
  void wait_out_the_lease(const std::string& names) {
    heartbeats.assign(names.begin(), names.end());
    pass(5s);
  }
  /// `names` stop their workers, and the lease of whoever is lost is waited out.
  void stop_and_wait(const std::string& names) {
    for (const char name : names) tell(name, Phase::kIdle), phases[name] = Phase::kIdle;
    wait_out_the_lease(names);
  }
  void pass(Duration time) {
    for (const TimePoint until = now + time; now < until;) {
      now += 250ms;
      for (const char name : heartbeats) tell(name, phases[name]);
      take(job.tick(now));
    }
  }

  [[nodiscard]] const Order& last(char name) { return orders[name]; }
  [[nodiscard]] std::string expelled(char name) { return expulsions[name]; }

  TimePoint now{};
  Job job;
  std::vector<char> heartbeats;  ///< who speaks while time passes
  std::map<char, Phase> phases;
  std::optional<char> host_of_coordinator;

 private:
  static MemberId id(char name) { return MemberId(static_cast<std::uint64_t>(name)); }
  void take(const JobActions& actions) {
    for (const JobAction& action : actions) {
      if (const auto* send = std::get_if<SendOrder>(&action))
        orders[static_cast<char>(send->to.value())] = send->order;
      if (const auto* parted = std::get_if<Expel>(&action)) {
        expulsions[static_cast<char>(parted->who.value())] = parted->why;
      }
    }
  }

  std::map<char, Order> orders;
  std::map<char, std::string> expulsions;
  std::uint64_t sequence = 0;
};

inline JobSpec fixed(int nodes, int restarts = 0) {
  return {.min_nodes = nodes, .max_nodes = nodes, .max_restarts = restarts};
}
inline JobSpec elastic(int min, int max) { return {.min_nodes = min, .max_nodes = max}; }

inline Story running(JobSpec spec, const std::string& names, Duration debounce = 2s) {
  Story story(std::move(spec), {.debounce = debounce});
  for (const char name : names) story.join(name);
  for (const char name : names) story.tell(name, Phase::kRunning);
  return story;
}

}  // namespace ddprun::membership::testing
