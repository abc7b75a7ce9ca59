#pragma once

#include "rendezvous/membership/job.h"
#include "rendezvous/membership/member_core.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership::testing {

/// A coordinator and the agents of a few nodes, as they are, joined by a network and a clock that a story
/// moves. Messages arrive at once; of a node that is cut off they wait, as TCP lets them, until it is mended.
/// Everything that happens is kept as a line of text; heartbeats are not.
class World {
 public:
  World(JobSpec spec, Timing timing);

  void join(const std::string& node, LocalWorldSize workers, std::optional<NodeRank> pinned);
  void workers_fail(const std::string& node, int exit_code);
  void workers_succeed(const std::string& node);
  /// Workers of this node take their time to stop, until `workers_stopped`.
  void be_slow(const std::string& node);
  void workers_stopped(const std::string& node);
  void told_to_stop(const std::string& node, int signal);
  void drain(std::optional<NodeRank> rank);

  void cut(const std::string& node);
  /// What the coordinator has sent reaches the node that is cut off; its own words still do not.
  void hear_what_waits(const std::string& node);
  void mend(const std::string& node);
  /// The agent dies; its kernel says so.
  void crash(const std::string& node);
  /// The machine is gone, and says nothing.
  void power_off(const std::string& node);
  /// Something between the two breaks the connection; both notice.
  void reset(const std::string& node);

  void pass(Duration time);
  /// The coordinator's machine stands still for that long; the agents' do not.
  void stand_still(Duration time);

  /// What happened since the last call.
  std::string take_lines();

 private:
  struct Agent {
    std::string name;
    NodeFacts facts;
    std::optional<MemberCore> core;
    std::vector<Status> unsent;                  ///< while it is cut off
    std::vector<std::function<void()>> unheard;  ///< likewise
    bool is_there = true;
    bool is_cut = false;
    bool is_slow = false;
    bool is_connected = false;
    bool owes_stop = false;  ///< its workers are to be stopped as soon as the actions at hand are done
  };

  Agent& agent(const std::string& name) { return agents_.at(name); }
  void connect(Agent& agent);
  void perform(Agent& agent, const MemberActions& actions);
  void act(Agent& agent, const SendStatus& send);
  void act(Agent& agent, const RoundBegins& start);
  void act(Agent& agent, const RoundStopped& stop);
  void act(Agent& agent, const LeaseLost& kill);
  void act(Agent& agent, const Waiting& show);
  void act(Agent& agent, const RestartGranted& show);
  void act(Agent& agent, const ComeBack& back);
  void act(Agent& agent, const JobEnded& leave);
  void perform(const JobActions& actions);
  void act(const SendOrder& send);
  void act(const Expel& expel);
  void act(const BeginGeneration&) {}
  void act(const Note& note);
  void step(Duration time, bool coordinator_runs);
  void hear(Agent& agent, MemberId id, const std::function<void()>& what);
  Agent* find(MemberId id);
  void say(const std::string& line);

  JobSpec spec_;
  Timing timing_;
  TimePoint now_{};
  Job job_;
  std::map<std::string, Agent> agents_;
  std::uint64_t last_id_ = 0;
  bool coordinator_runs_ = true;
  std::vector<std::function<void()>> unserved_;  ///< what came while the coordinator stood still
  std::string lines_;
};

}  // namespace ddprun::membership::testing
