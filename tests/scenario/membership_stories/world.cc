#include "tests/scenario/membership_stories/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::membership::testing {

World::World(JobSpec spec, Timing timing)
    : spec_(std::move(spec)), timing_(timing), job_(spec_, timing_, now_, "story") {}

// ---- what a story tells

void World::join(const std::string& node, LocalWorldSize workers, std::optional<NodeRank> pinned) {
  const auto address = fmt::format("10.0.0.{}", agents_.size() + 1);
  Agent& agent = agents_[node];
  agent = Agent{.name = node};
  agent.facts = {
      .host = node, .address = address, .local_world_size = workers, .pinned = pinned, .replaces = {}};
  connect(agent);
}

void World::workers_fail(const std::string& node, int exit_code) {
  Agent& failing = agent(node);
  const NodeFailure failure{.worker = WorkerEnd{.rank = Rank(0)},
                            .host = node,
                            .exit_code = exit_code,
                            .what = fmt::format("a worker of {} exited with code {}", node, exit_code)};
  perform(failing, failing.core->workers_failed(failure, now_));
  if (!failing.is_slow) workers_stopped(node);
}

void World::workers_succeed(const std::string& node) {
  perform(agent(node), agent(node).core->workers_succeeded(now_));
}

void World::be_slow(const std::string& node) { agent(node).is_slow = true; }

void World::workers_stopped(const std::string& node) {
  agent(node).is_slow = false;
  perform(agent(node), agent(node).core->workers_stopped(now_));
}

void World::told_to_stop(const std::string& node, int signal) {
  Agent& leaving = agent(node);
  perform(leaving, leaving.core->leave(signal, now_));
  if (!leaving.is_slow) workers_stopped(node);
}

void World::drain(std::optional<NodeRank> rank) { perform(job_.drain(rank, now_)); }

void World::cut(const std::string& node) { agent(node).is_cut = true; }

void World::hear_what_waits(const std::string& node) {
  for (const auto& what : std::exchange(agent(node).unheard, {})) what();
}

void World::mend(const std::string& node) {
  Agent& mended = agent(node);
  mended.is_cut = false;
  hear_what_waits(node);
  for (const Status& status : std::exchange(mended.unsent, {})) act(mended, SendStatus{status});
}

void World::crash(const std::string& node) {
  agent(node).is_there = false;
  perform(job_.lost(agent(node).facts.id, Loss::kClosed, now_));
}

void World::power_off(const std::string& node) { agent(node).is_there = false; }

void World::reset(const std::string& node) {
  Agent& broken = agent(node);
  perform(job_.lost(broken.facts.id, Loss::kReset, now_));
  broken.is_connected = false;
  perform(broken, broken.core->disconnected("the connection was reset", now_));
}

void World::pass(Duration time) { step(time, true); }

void World::stand_still(Duration time) {
  step(time, false);
  for (const auto& serve : std::exchange(unserved_, {})) serve();
}

std::string World::take_lines() { return std::exchange(lines_, {}); }

// ---- time

void World::step(Duration time, bool coordinator_runs) {
  coordinator_runs_ = coordinator_runs;
  const TimePoint end = now_ + time;
  while (now_ < end) {
    now_ = std::min(end, now_ + timing_.heartbeat / 4);
    for (auto& [name, agent] : agents_) {
      if (!agent.is_there) continue;
      if (!agent.is_connected && !agent.core->has_workers()) connect(agent);
      if (agent.core->next_wake() <= now_) perform(agent, agent.core->tick(now_));
    }
    if (coordinator_runs) perform(job_.tick(now_));
  }
  coordinator_runs_ = true;
}

// ---- agents

void World::connect(Agent& agent) {
  if (agent.is_cut || !coordinator_runs_) return;
  agent.facts.id = MemberId(++last_id_);
  agent.is_connected = true;
  if (!agent.core) agent.core.emplace(timing_, now_);
  perform(job_.joined(agent.facts, now_));
  if (agent.is_connected) perform(agent, agent.core->connected(now_));
}

void World::perform(Agent& agent, const MemberActions& actions) {
  for (const MemberAction& action : actions) {
    std::visit([this, &agent](const auto& what) { act(agent, what); }, action);
  }
  if (!std::exchange(agent.owes_stop, false) || agent.is_slow) return;
  perform(agent, agent.core->workers_stopped(now_));
}

void World::act(Agent& agent, const SendStatus& send) {
  if (agent.is_cut) {
    agent.unsent.push_back(send.status);
    return;
  }
  const auto serve = [this, id = agent.facts.id, status = send.status] {
    perform(job_.status(id, status, now_));
  };
  if (coordinator_runs_) return serve();
  unserved_.emplace_back(serve);
}

void World::act(Agent& agent, const RoundBegins& start) {
  const Seat& seat = start.round.seat;
  say(fmt::format("{} starts its workers: generation {}, node rank {} of {}, ranks {}-{} of {}", agent.name,
                  restart_count(seat.generation), seat.node_rank, seat.nodes, seat.base_rank,
                  seat.base_rank.value() + agent.facts.local_world_size.value() - 1, seat.world_size));
}

void World::act(Agent& agent, const RoundStopped& stop) {
  say(fmt::format("{} stops its workers: {}", agent.name, stop.why));
  agent.owes_stop = true;
}

void World::act(Agent& agent, const LeaseLost& kill) {
  say(fmt::format("{} kills its workers: {}", agent.name, kill.why));
  agent.is_slow = false;
  agent.owes_stop = true;
}

void World::act(Agent& agent, const Waiting& show) {
  say(fmt::format("{} waits: {}", agent.name, show.text));
}

void World::act(Agent& agent, const RestartGranted& show) {
  const Restart& restart = show.restart;
  std::string line = fmt::format("{} says: {}; starting all workers again", agent.name, restart.why);
  if (restart.delay > Duration::zero()) line += fmt::format(" in {:.1f} s", to_seconds(restart.delay));
  if (restart.number > 0) line += fmt::format(": restart {} of {}", restart.number, restart.allowed);
  say(line);
}

void World::act(Agent& agent, const ComeBack& back) {
  say(fmt::format("{} comes back as a new member: {}", agent.name, back.why));
  agent.facts.replaces = std::exchange(agent.facts.id, MemberId(0));
  if (agent.core) agent.facts.cut_off = agent.core->why_cut_off();
  agent.is_connected = false;
  agent.unsent.clear();
}

void World::act(Agent& agent, const JobEnded& leave) {
  const std::string why = leave.end.why.empty() ? "" : ": " + leave.end.why;
  const std::string cause = leave.end.root_cause ? "; root cause: " + leave.end.root_cause->what : "";
  say(fmt::format("{} leaves the job with code {}{}{}", agent.name, leave.end.exit_code, why, cause));
  crash(agent.name);
}

// ---- coordinator

void World::perform(const JobActions& actions) {
  for (const JobAction& action : actions) {
    std::visit([this](const auto& what) { act(what); }, action);
  }
}

void World::act(const Note& note) { say("coordinator: " + note.text); }

void World::act(const SendOrder& send) {
  Agent* to = find(send.to);
  if (to == nullptr) return;
  hear(*to, send.to, [this, to, order = send.order] { perform(*to, to->core->order(order, now_)); });
}

void World::act(const Expel& parted) {
  Agent* to = find(parted.who);
  say(fmt::format("coordinator refuses {}: {}", to == nullptr ? "a former member" : to->name, parted.why));
  if (to == nullptr) return;
  hear(*to, parted.who, [this, to, parted] {
    to->is_connected = false;
    if (parted.may_return || (to->core && to->core->has_workers()))
      return perform(*to, to->core->disconnected("the coordinator says: " + parted.why, now_));
    to->is_there = false;
    say(to->name + " gives up");
  });
}

// An agent hears what is meant for the connection that it has now.
void World::hear(Agent& agent, MemberId id, const std::function<void()>& what) {
  const auto if_still_meant = [&agent, id, what] {
    if (agent.is_there && agent.facts.id == id) what();
  };
  if (!agent.is_cut) return if_still_meant();
  agent.unheard.emplace_back(if_still_meant);
}

World::Agent* World::find(MemberId id) {
  for (auto& [name, agent] : agents_) {
    if (agent.is_there && agent.facts.id == id) return &agent;
  }
  return nullptr;
}

void World::say(const std::string& line) {
  lines_ += fmt::format("{:7.2f} s  {}\n", to_seconds(now_ - TimePoint{}), line);
}

}  // namespace ddprun::membership::testing
