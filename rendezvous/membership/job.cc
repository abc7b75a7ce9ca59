#include "rendezvous/membership/job.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/exit_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr Duration kFarewellTime = std::chrono::seconds(10);

bool is_same_but_sequence(Status a, const Status& b) {
  a.sequence = b.sequence;
  return a == b;
}

}  // namespace

std::string_view to_string(JobPhase state) {
  switch (state) {
    case JobPhase::kGathering:
      return "gathering";
    case JobPhase::kRunning:
      return "running";
    case JobPhase::kStopping:
      return "stopping";
    case JobPhase::kEnded:
      return "ended";
  }
  return "unknown";
}

Job::Job(JobSpec spec, Timing timing, TimePoint now, std::string coordinator)
    : spec_(std::move(spec)),
      timing_(timing),
      coordinator_(std::move(coordinator)),
      opened_at_(now),
      last_arrival_(now),
      last_event_(now),
      restarts_(spec_) {}

// ---- events

JobActions Job::joined(const NodeFacts& facts, TimePoint now, const Status& first) {
  absorb_pause(now);
  JobActions out;
  std::optional<NodeRank> previous;
  const bool is_seated = keeps_seat(facts);
  if (facts.replaces) {
    if (is_seated) vacate(facts.succeeded->node_rank, out);
    if (const auto old = nodes_.find(*facts.replaces); old != nodes_.end()) {
      const std::string& why = facts.cut_off.empty() ? "it was cut off" : facts.cut_off;
      drop(old->first, why + "; it stopped its workers and came back", now, out);
    }
    previous = lost_nodes_.came_back(*facts.replaces);
  }
  if (facts.succeeded && (!has_run_ || successes_.are_of(*facts.succeeded))) successes_.add(*facts.succeeded);
  if (const auto why_not = refuse(facts, is_seated, now)) {
    out.push_back(Expel{facts.id, *why_not, state_ == JobPhase::kEnded});
    advance(now, out);
    return out;
  }
  if (facts.pinned && !is_seated) replace_silent(facts, now, out);
  nodes_.emplace(facts.id, Node{.facts = facts,
                                .arrival = ++arrivals_,
                                .last_heard = now,
                                .last = {},
                                .seat = std::nullopt,
                                .previous = previous});
  if (is_seated) return_to_seat(nodes_.at(facts.id));
  if (facts.replaces && drained_.contains(*facts.replaces)) {
    drained_.insert(facts.id);
    nodes_.at(facts.id).leaving_signal = SIGTERM;
  }
  if (state_ == JobPhase::kEnded) expect_leave(nodes_.at(facts.id), now);
  if (!has_run_) {
    if (facts.replaces) came_.erase(*facts.replaces);
    came_.insert(facts.id);
  }
  last_arrival_ = now;
  note_history(facts, now);
  finish_if_all_succeeded(now, out);
  if (first.sequence > 0) handle_status(nodes_.at(facts.id), first, now, out);
  advance(now, out);
  return out;
}

JobActions Job::status(MemberId from, const Status& status, TimePoint now) {
  absorb_pause(now);
  JobActions out;
  const auto found = nodes_.find(from);
  if (found == nodes_.end()) {
    const std::string* expelled = lost_nodes_.why_expelled(from);
    out.push_back(Expel{from, expelled == nullptr ? "this node has not joined" : *expelled});
    return out;
  }
  Node& node = found->second;
  node.last_heard = now;
  node.is_heard_in_stop = state_ == JobPhase::kStopping;
  if (status.sequence > node.last.sequence) {
    const bool is_news = !is_same_but_sequence(status, node.last);
    handle_status(node, status, now, out);
    if (is_news)
      advance(now, out);  // a mere heartbeat changes nothing that thousands of nodes should be counted for
  }
  if (const auto still_there = nodes_.find(from); still_there != nodes_.end()) {
    out.push_back(SendOrder{from, order_for(still_there->second, now)});
  }
  return out;
}

JobActions Job::lost(MemberId who, Loss loss, TimePoint now) {
  absorb_pause(now);
  JobActions out;
  const auto found = nodes_.find(who);
  if (found == nodes_.end()) return out;
  const Node& node = found->second;
  if (node.seat && !reports_idle(node)) {
    lost_nodes_.fence(who, node.last_heard + timing_.liveness());
  }
  // What it was told lies where nobody reads any more.
  if (is_to_hear_the_end(node)) {
    lost_nodes_.add({.who = who,
                     .name = name_of(node),
                     .what = {},
                     .rank = *place_of(node),
                     .returns_by = now + timing_.rejoin_timeout});
  }
  drop(who, loss == Loss::kClosed ? "its connection was closed" : "its connection was broken", now, out);
  advance(now, out);
  return out;
}

JobActions Job::drain(std::optional<NodeRank> rank, TimePoint now) {
  if (!rank || !spec_.is_elastic()) {
    return end_for_all({.exit_code = exit_code::kTempFail, .why = std::string(kDrained)}, now);
  }
  absorb_pause(now);
  JobActions out;
  const auto is_meant = [&](const auto& entry) {
    return entry.second.seat && entry.second.seat->node_rank == *rank;
  };
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), is_meant);
  if (state_ == JobPhase::kEnded || found == nodes_.end()) return out;
  if (!found->second.is_leaving()) {
    drained_.insert(found->first);
    handle_leaving(found->second, SIGTERM, now, out);
  }
  advance(now, out);
  return out;
}

JobActions Job::end_for_all(const JobEnd& end, TimePoint now) {
  absorb_pause(now);
  JobActions out;
  if (state_ == JobPhase::kEnded) return out;
  cause_.end_with(end);
  if (state_ == JobPhase::kGathering) {
    finish(*cause_.ending(), now, out);
  } else {
    begin_stop(cause_.ending()->why, now, out);
  }
  advance(now, out);
  return out;
}

JobActions Job::end_at_once(TimePoint now) {
  absorb_pause(now);
  JobActions out;
  if (state_ != JobPhase::kEnded && cause_.ending()) finish(*cause_.ending(), now, out);
  return out;
}

JobActions Job::tick(TimePoint now) {
  absorb_pause(now);
  JobActions out;
  drop_silent(now, out);
  send_away_who_stays(now, out);
  advance(now, out);
  return out;
}

// Whoever goes on talking after the end would keep the coordinator for ever.
void Job::send_away_who_stays(TimePoint now, JobActions& out) {
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    if (!node->second.leaves_by || now < *node->second.leaves_by) {
      ++node;
      continue;
    }
    out.push_back(Note{fmt::format("{} did not leave when the job had ended", name_of(node->second))});
    lost_nodes_.expel(node->first, "the job has ended, and this node did not leave");
    out.push_back(Expel{node->first, *lost_nodes_.why_expelled(node->first), false});
    node = nodes_.erase(node);
  }
}

void Job::expect_leave(Node& node, TimePoint now) const {
  const Duration returns_in = is_to_hear_the_end(node) ? timing_.rejoin_timeout : Duration::zero();
  node.leaves_by = now + std::max({kFarewellTime, timing_.liveness(), returns_in});
}

// After the end: its workers have succeeded, and it waits to hear what became of the others.
bool Job::is_to_hear_the_end(const Node& node) const {
  const std::optional<NodeRank> place = place_of(node);
  const bool has_gone = node.last.has_heard_end || node.is_leaving();
  return state_ == JobPhase::kEnded && place && successes_.has(*place) && !has_gone;
}

TimePoint Job::next_wake(TimePoint now) const {
  TimePoint wake = now + timing_.heartbeat / 4;
  if (state_ == JobPhase::kStopping && lost_nodes_.fenced_until() > now) {
    wake = std::min(wake, lost_nodes_.fenced_until());
  }
  if (state_ == JobPhase::kGathering) {
    const TimePoint held_until = std::max(lost_nodes_.fenced_until(), restarts_at_);
    for (const TimePoint at : {held_until, opened_at_ + timing_.rejoin_timeout}) {
      if (at > now) wake = std::min(wake, at);
    }
    // Until then no round begins, whoever is ready.
    if (held_until <= now && !may_have_succeeded(now))
      wake = std::min(wake, decide_round(spec_, timing_, view(), now).decide_again_at);
  }
  if (may_hear_of_others(now)) wake = std::min(wake, opened_at_ + timing_.rejoin_timeout);
  return wake;
}

bool Job::awaits_return(TimePoint now) const { return !awaited_to_hear(now).empty(); }

std::vector<std::string> Job::awaited_to_hear(TimePoint now) const {
  std::vector<std::string> names;
  if (state_ != JobPhase::kEnded) return names;
  for (const VacantSeat& vacant : lost_nodes_.awaited(now)) {
    if (successes_.has(vacant.rank)) names.push_back(vacant.name);
  }
  if (may_hear_of_others(now)) names.emplace_back("nodes of the generation before (not here yet)");
  return names;
}

// Nodes of the coordinator before this one stop their workers, and come when these are gone. How many there were of an
// elastic world, nobody knows.
bool Job::may_hear_of_others(TimePoint now) const {
  if (state_ != JobPhase::kEnded || has_run_ || everyone_succeeded()) return false;
  const bool may_be_more = came_.size() < static_cast<std::size_t>(spec_.max_nodes);
  return told_generation_.value() > 0 && may_be_more && now < opened_at_ + timing_.rejoin_timeout;
}

// ---- what events do

// The shell ticks four times in a heartbeat. A longer gap means that this process stood still, which is no
// evidence against any node.
void Job::absorb_pause(TimePoint now) {
  const Duration gap = now - last_event_;
  last_event_ = std::max(last_event_, now);
  if (gap <= timing_.heartbeat / 2) return;
  const Duration pause = gap - timing_.heartbeat / 4;
  for (auto& [id, node] : nodes_) {
    node.last_heard += pause;
    if (node.leaves_by) *node.leaves_by += pause;
  }
  lost_nodes_.shift(pause);
  opened_at_ += pause;
  // A node counts its lease from when it sent what was answered last: up to a heartbeat before this began.
  if (gap < timing_.lease() - timing_.heartbeat) return;
  pause_ = gap;
  paused_until_ = now;
}

bool Job::was_paused(TimePoint now) const {
  return pause_ != Duration::zero() && now - paused_until_ < timing_.liveness();
}

std::string Job::because_of_pause(TimePoint now) const {
  if (!was_paused(now)) return {};
  return fmt::format(" because the coordinator stood still for {:.2f} s, and the lease is {:.2f} s",
                     to_seconds(pause_), to_seconds(timing_.lease()));
}

// A node that has succeeded has nothing that its silence could hide. While its generation lasts, and after the end of
// the job, it keeps its connection: the end is then there to be read when it goes on.
void Job::drop_silent(TimePoint now, JobActions& out) {
  std::vector<std::pair<MemberId, Duration>> silent;
  for (const auto& [id, node] : nodes_) {
    const bool is_done = state_ == JobPhase::kEnded ? is_to_hear_the_end(node) : has_succeeded(node);
    const Duration silence = now - node.last_heard;
    if (silence >= timing_.liveness() && !is_done) silent.emplace_back(id, silence);
  }
  for (const auto& [id, silence] : silent) {
    const std::string why = fmt::format("it was silent for {:.2f} s", to_seconds(silence));
    drop(id, why, now, out);
    out.push_back(Expel{id, *lost_nodes_.why_expelled(id)});
  }
}

// Who was not refused may have its --node-rank. Without a seat the silent one has no workers that could live.
void Job::replace_silent(const NodeFacts& newcomer, TimePoint now, JobActions& out) {
  std::vector<MemberId> replaced;
  for (const auto& [id, node] : nodes_) {
    if (node.facts.pinned == newcomer.pinned && !node.seat && !node.is_leaving()) replaced.push_back(id);
  }
  for (const MemberId id : replaced) {
    const std::string why = fmt::format("it was silent for {:.2f} s, and {} came for node rank {}",
                                        to_seconds(now - nodes_.at(id).last_heard),
                                        membership::name_of(newcomer), newcomer.pinned->value());
    drop(id, why, now, out);
    out.push_back(Expel{id, *lost_nodes_.why_expelled(id)});
  }
}

bool Job::keeps_seat(const NodeFacts& facts) const {
  const bool has_seats = state_ == JobPhase::kRunning || state_ == JobPhase::kStopping;
  return has_seats && facts.replaces && facts.succeeded && facts.succeeded->generation == generation_ &&
         successes_.are_of(*facts.succeeded);
}

void Job::vacate(NodeRank seat, JobActions& out) {
  lost_nodes_.fill(seat);
  const auto is_there = [seat](const auto& entry) {
    return entry.second.seat && entry.second.seat->node_rank == seat;
  };
  const auto old = std::find_if(nodes_.begin(), nodes_.end(), is_there);
  if (old == nodes_.end()) return;
  const MemberId who = old->first;
  lost_nodes_.expel(who, fmt::format("{} has come back", name_of(old->second)));
  nodes_.erase(old);
  out.push_back(Expel{who, *lost_nodes_.why_expelled(who)});
}

void Job::return_to_seat(Node& node) {
  const Success& success = *node.facts.succeeded;
  node.last = {.generation = success.generation, .phase = Phase::kSucceeded};
  node.seat = Seat{.generation = success.generation,
                   .node_rank = success.node_rank,
                   .nodes = success.nodes,
                   .base_rank = success.base_rank,
                   .coordinator = success.coordinator};
}

void Job::handle_status(Node& node, const Status& status, TimePoint now, JobActions& out) {
  node.last = status;
  if (has_succeeded(node))
    successes_.add({generation_, node.seat->node_rank, node.seat->nodes, coordinator_});
  if (status.leaving_signal != 0 && !node.is_leaving()) handle_leaving(node, status.leaving_signal, now, out);
  if (status.failure && !status.failure->worker)
    return end_by_failure_of_no_worker(node, *status.failure, now, out);
  if (!node.seat || status.generation != generation_) return;
  if (state_ == JobPhase::kStopping && status.failure) reconsider(node, *status.failure, out);
  // Its ranks left before it heard that one of another node had lost them.
  const bool tells_more = status.failure.has_value();  // of one rank, not of them all
  if (state_ == JobPhase::kStopping && has_succeeded(node) && !tells_more) {
    reconsider(node, as_leaver(node), out);
  }
  if (state_ != JobPhase::kRunning) return;
  if (status.failure) {
    blame(node, *status.failure);
    begin_stop(cause_.why(), now, out);
  } else if (status.phase == Phase::kStopping || status.phase == Phase::kIdle) {
    const std::string why = status.cut_off.empty() ? std::string() : ": " + status.cut_off;
    const std::string what = fmt::format("{} was cut off and stopped its workers{}", name_of(node),
                                         was_paused(now) ? because_of_pause(now) : why);
    cause_.lost({.what = what, .is_by_pause = was_paused(now)});
    begin_stop(what, now, out);
  }
}

void Job::blame(const Node& node, NodeFailure failure) {
  failure.node_rank = node.seat->node_rank;
  failure.generation = generation_;
  std::string why = placed(failure.what, node);
  // As on one node (launcher/agent/blame.h): who left or stood still is behind the symptom, which goes on being told.
  // Of such a rank there is nothing to show; of the one that lost it there is.
  const bool is_behind = failure.has_left || failure.stood_still;
  if (const auto& symptom = cause_.failure(); is_behind && symptom) {
    if (!failure.victim) {
      failure.victim = symptom->victim ? symptom->victim : symptom->rank();
      failure.account = symptom->account;
    }
    failure.exit_code = symptom->exit_code;
    why = fmt::format("{}: {}", why, cause_.why());
  }
  const Node* left = failure.weight == Weight::kSymptom && !failure.has_left ? who_left() : nullptr;
  cause_.blame(std::move(failure), std::move(why));
  if (left != nullptr) blame(*left, as_leaver(*left));
}

void Job::reconsider(const Node& node, NodeFailure failure, JobActions& out) {
  failure.node_rank = node.seat->node_rank;
  if (!cause_.is_explained_by(failure)) return;
  blame(node, std::move(failure));
  out.push_back(Note{fmt::format("the cause was another: {}", cause_.why())});
}

const Job::Node* Job::who_left() const {
  const auto left = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const auto& entry) { return has_succeeded(entry.second); });
  return left == nodes_.end() ? nullptr : &left->second;
}

NodeFailure Job::as_leaver(const Node& node) {
  const int workers = node.facts.local_world_size.value();
  const int first = node.seat->base_rank.value();
  const std::string ranks =
      workers == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, first + workers - 1);
  return {.worker = WorkerEnd{.rank = node.seat->base_rank, .status = ExitStatus::exited(0)},
          .host = node.facts.host,
          .what = fmt::format("{} left with exit code 0, while others waited for {}", ranks,
                              workers == 1 ? "it" : "them"),
          .weight = Weight::kSymptom,
          .has_left = true};
}

void Job::handle_leaving(Node& node, int signal, TimePoint now, JobActions& out) {
  node.leaving_signal = signal;
  JobEnd end = ended_by_leaving(node);
  const int staying = static_cast<int>(eligible().size());
  if (spec_.is_elastic() && staying < spec_.min_nodes) {
    end.why += fmt::format("; {} of at least {} nodes would stay", staying, spec_.min_nodes);
  } else if (spec_.is_elastic() && node.facts.hosts_coordinator) {
    end.why += "; the coordinator runs there, and the job ends with it";
  }
  const bool did_its_part = has_succeeded(node) && !node.facts.hosts_coordinator;
  const bool is_needed = node.facts.hosts_coordinator || signal == SIGINT ||
                         (place_of(node) && (!spec_.is_elastic() || staying < spec_.min_nodes));
  if (state_ == JobPhase::kEnded) return;
  if (state_ == JobPhase::kGathering) {
    // Between two generations, as while one runs; before the first another may come in its place.
    const bool is_missed = node.previous && (signal == SIGINT || staying < spec_.min_nodes);
    if (node.facts.hosts_coordinator || is_missed) finish(end, now, out);
    return;
  }
  if (did_its_part) return;
  if (is_needed && (place_of(node) || node.facts.hosts_coordinator)) {
    cause_.end_with(end);
    begin_stop(end.why, now, out);
  } else if (node.seat) {
    begin_stop(fmt::format("{} and leaves; {} stay", end.why, staying), now, out);
  }
}

// Under this coordinator, or, be it as a spare, under one before it.
bool Job::has_had_a_part(const Node& node) const {
  const bool did_before = !has_run_ && node.facts.last_generation.value() > 0;
  return did_before || place_of(node) || node.facts.hosts_coordinator;
}

// Such as a --job-timeout: nothing follows it, whatever the job is just doing. In the place of a node that has had no
// part in it, another may come; the others can do without one that leaves, or the job ends with it.
void Job::end_by_failure_of_no_worker(Node& node, const NodeFailure& failure, TimePoint now,
                                      JobActions& out) {
  if (state_ == JobPhase::kEnded || node.is_leaving()) return;
  const JobEnd end{.exit_code = failure.exit_code,
                   .why = placed(failure.what, node),
                   .restarts_used = restarts_.restarts_used()};
  if (!has_had_a_part(node)) {
    node.ends_with = end;
    return;
  }
  if (state_ == JobPhase::kGathering) return finish(end, now, out);
  cause_.end_unless_failed(end);
  begin_stop(end.why, now, out);
}

void Job::drop(MemberId who, const std::string& why, TimePoint now, JobActions& out) {
  const auto found = nodes_.find(who);
  DDPRUN_CHECK(found != nodes_.end(), "only a node that is here can be dropped");
  const Node node = std::move(found->second);
  nodes_.erase(found);
  if (const std::optional<NodeRank> place = place_of(node)) lost_nodes_.remember_place(who, *place);
  const std::string what = fmt::format("{} was lost{}: {}", name_of(node), because_of_pause(now), why);
  lost_nodes_.expel(who, fmt::format("{}; start ddprun there again to join the next generation", what));
  if (state_ == JobPhase::kEnded) return;
  if (!node.is_leaving()) {
    came_.erase(who);
    out.push_back(Note{what});
  }
  const bool is_done = has_succeeded(node);
  if (!node.seat || is_idle(node)) return;
  if (node.is_leaving() && !is_done) return;
  lost_nodes_.add({.who = who,
                   .name = name_of(node),
                   .what = what,
                   .rank = node.seat->node_rank,
                   .returns_by = node.is_leaving() ? TimePoint::min() : now + timing_.rejoin_timeout});
  if (is_done) return;
  const auto& failure = cause_.failure();
  // Its worker's failure explains its loss.
  if (!failure || failure->node_rank != node.seat->node_rank) {
    cause_.lost({.what = what,
                 .is_by_pause = was_paused(now),
                 .was_there = state_ == JobPhase::kStopping && node.is_heard_in_stop});
  }
  if (state_ == JobPhase::kRunning) begin_stop(what, now, out);
}

void Job::begin_stop(const std::string& why, TimePoint now, JobActions& out) {
  if (state_ != JobPhase::kRunning) return;
  state_ = JobPhase::kStopping;
  opened_at_ = now;
  stopped_at_ = now;
  for (auto& [id, node] : nodes_) node.is_heard_in_stop = false;
  out.push_back(Note{fmt::format("generation {} is stopped: {}", restart_count(generation_), why)});
  cause_.stop_for(why);
  send_to_all(now, out);
}

void Job::send_to_all(TimePoint now, JobActions& out) const {
  for (const auto& [id, node] : nodes_) out.push_back(SendOrder{id, order_for(node, now)});
}

}  // namespace ddprun::membership
