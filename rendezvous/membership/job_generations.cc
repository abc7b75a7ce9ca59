#include "rendezvous/base/exit_codes.h"
#include "rendezvous/membership/attendance.h"
#include "rendezvous/membership/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

// How one generation leads to the next, or to the end.

namespace ddprun::membership {

void Job::advance(TimePoint now, JobActions& out) {
  finish_if_all_succeeded(now, out);
  const bool was_stopping = state_ == JobPhase::kStopping;
  if (was_stopping) {
    const auto is_done = [&](const auto& entry) { return !entry.second.seat || reports_idle(entry.second); };
    if (now >= lost_nodes_.fenced_until() && std::all_of(nodes_.begin(), nodes_.end(), is_done) &&
        !may_still_succeed(now))
      conclude(now, out);
  }
  if (state_ == JobPhase::kGathering) gather(now, out);
  if (was_stopping && state_ == JobPhase::kGathering) send_to_all(now, out);  // what is waited for
  if (state_ == JobPhase::kRunning) check_growth(now, out);
  if (state_ != described_state_ || now - described_at_ >= timing_.heartbeat) {
    described_state_ = state_;
    described_at_ = now;
    described_arrivals_ = arrivals_;
    description_ = describe(now);
  }
}

void Job::finish_if_all_succeeded(TimePoint now, JobActions& out) {
  if (state_ != JobPhase::kEnded && everyone_succeeded()) finish(JobEnd{}, now, out);
}

void Job::conclude(TimePoint now, JobActions& out) {
  state_ = JobPhase::kGathering;
  opened_at_ = now;
  for (auto& [id, node] : nodes_) {
    node.previous = place_of(node);
    node.seat.reset();
    if (node.is_leaving()) out.push_back(SendOrder{id, order_for(node, now)});
  }
  Conclusion conclusion = cause_.conclude(spec_.is_elastic());
  switch (conclusion.kind) {
    case Conclusion::Kind::kGoOn:
      restart_for_nothing(conclusion.end.why);
      break;
    case Conclusion::Kind::kRestart:
      spend_restart_or_finish(std::move(conclusion.end), now, out);
      break;
    case Conclusion::Kind::kEnd:
      finish(std::move(conclusion.end), now, out);
      break;
  }
  if (state_ != JobPhase::kEnded) drop_silent(now, out);
}

Generation Job::next_generation() const {
  return Generation(std::max(generation_, told_generation_).value() + 1);
}

void Job::restart_for_nothing(const std::string& why) {
  restart_ = Restart{.restart_count = restart_count(next_generation()), .why = why};
}

void Job::spend_restart_or_finish(JobEnd end, TimePoint now, JobActions& out) {
  RestartDecision decision = restarts_.decide(stopped_at_ - began_at_, now);
  if (!decision.restart) {
    end.why = refusal_of(decision, end.why);
    return finish(std::move(end), now, out);
  }
  restart_ = std::move(decision.restart);
  restart_->restart_count = restart_count(next_generation());
  restart_->why = std::move(end.why);
  if (end.root_cause && !end.root_cause->account.diagnosis.empty())
    restart_->why += ": " + end.root_cause->account.diagnosis;
  restart_->root_cause = std::move(end.root_cause);
  restarts_at_ = now + restart_->delay;
  opened_at_ = restarts_at_;
  out.push_back(Note{fmt::format("{}: {}", decision.why, restart_->why)});
}

// An agent that was part of a generation of a coordinator before this one. Others, which have not come back
// yet, may still run workers of it.
void Job::note_history(const NodeFacts& facts, TimePoint now) {
  told_generation_ = std::max(told_generation_, facts.last_generation);
  if (has_run_ || facts.last_generation.value() == 0) return;
  restarts_.continue_from(facts.restarts_used, now);
  lost_nodes_.fence(MemberId(0), opened_at_ + timing_.liveness());
}

void Job::gather(TimePoint now, JobActions& out) {
  if (now < lost_nodes_.fenced_until() || now < restarts_at_ || may_have_succeeded(now)) return;
  if (nodes_.size() < static_cast<std::size_t>(spec_.min_nodes) && now < opened_at_ + timing_.join_timeout)
    return;
  const RoundDecision decision = decide_round(spec_, timing_, view(), now);
  switch (decision.verdict) {
    case RoundVerdict::kWait:
      return;
    case RoundVerdict::kClose:
      return open_generation(decision.why, now, out);
    case RoundVerdict::kGiveUp:
      return finish({.exit_code = exit_code::kTempFail,
                     .why = fmt::format("{}; {}", decision.why, describe(now)),
                     .restarts_used = restarts_.restarts_used()},
                    now, out);
  }
}

void Job::open_generation(const std::string& why, TimePoint now, JobActions& out) {
  std::vector<Candidate> candidates;
  for (const Node* node : eligible()) candidates.push_back({node->facts, node->previous, node->arrival});
  for (auto& [id, node] : nodes_) node.previous.reset();
  generation_ = next_generation();
  began_at_ = now;
  has_run_ = true;
  came_.clear();
  const Seating seating = assign_ranks(candidates, spec_.max_nodes);
  std::vector<Seat> seats = make_seats(seating.by_rank, generation_);
  for (Seat& seat : seats) {
    seat.restarts_used = restarts_.restarts_used();
    seat.restarts_allowed = spec_.max_restarts;
    seat.coordinator = coordinator_;
  }
  for (std::size_t i = 0; i < seats.size(); ++i) nodes_.at(seating.by_rank[i].node.id).seat = seats[i];
  state_ = JobPhase::kRunning;
  lost_nodes_.begin_generation();
  successes_.begin(generation_, static_cast<int>(seats.size()), coordinator_);
  out.push_back(Note{fmt::format("generation {} begins: {}; {} worker{}", restart_count(generation_), why,
                                 seats[0].world_size, seats[0].world_size.value() == 1 ? "" : "s")});
  out.push_back(BeginGeneration{generation_});
  send_to_all(now, out);
}

void Job::check_growth(TimePoint now, JobActions& out) {
  if (now < last_arrival_ + timing_.debounce || !spec_.is_elastic() || !successes_.empty()) return;
  int seated = 0;
  std::vector<std::string> waiting;
  for (const auto& [id, node] : nodes_) seated += node.seat ? 1 : 0;
  for (const Node* node : eligible()) {
    if (!node->seat) waiting.push_back(membership::name_of(node->facts));
  }
  if (waiting.empty() || seated >= spec_.max_nodes) return;
  const int more = std::min(static_cast<int>(waiting.size()), spec_.max_nodes - seated);
  begin_stop(
      fmt::format("{} came; the world grows from {} to {} nodes", join_names(waiting), seated, seated + more),
      now, out);
}

void Job::finish(JobEnd end, TimePoint now, JobActions& out) {
  end.restarts_used = restarts_.restarts_used();
  end_ = std::move(end);
  state_ = JobPhase::kEnded;
  for (auto& [id, node] : nodes_) expect_leave(node, now);
  out.push_back(Note{end_.exit_code == 0 ? std::string("the job succeeded")
                                         : fmt::format("the job ends: {}", end_.why)});
  send_to_all(now, out);
}

// ---- questions

bool Job::is_idle(const Node& node) const {
  return node.last.phase == Phase::kIdle && node.last.generation == generation_;
}

bool Job::reports_idle(const Node& node) const { return is_idle(node) || has_succeeded(node); }

bool Job::has_succeeded(const Node& node) const {
  return node.seat && node.last.phase == Phase::kSucceeded && node.last.generation == generation_;
}

bool Job::everyone_succeeded() const {
  return successes_.are_all_of(has_run_ ? generation_ : told_generation_);
}

// Nothing is known of those who were lost, nobody who is here has ended otherwise, and nobody computes.
bool Job::may_still_succeed(TimePoint now) const {
  if (cause_.ending() || cause_.failure()) return false;
  int unknown = 0;
  for (const VacantSeat& vacant : lost_nodes_.awaited(now)) unknown += successes_.has(vacant.rank) ? 0 : 1;
  return unknown > 0 && unknown == successes_.missing();
}

// This coordinator is new. Of the last generation of the one before it all who have come have succeeded, and the
// others have not come yet.
bool Job::may_have_succeeded(TimePoint now) const {
  if (has_run_ || !successes_.is_missing_some_of(told_generation_)) return false;
  const auto has_not = [this](const auto& entry) {
    const NodeFacts& facts = entry.second.facts;
    return facts.last_generation == told_generation_ &&
           !(facts.succeeded && successes_.are_of(*facts.succeeded));
  };
  return now < opened_at_ + timing_.rejoin_timeout && std::none_of(nodes_.begin(), nodes_.end(), has_not);
}

RoundView Job::view() const {
  return {.ready = static_cast<int>(eligible().size()),
          .is_first = !has_run_,
          .opened_at = opened_at_,
          .last_arrival = last_arrival_};
}

std::vector<const Job::Node*> Job::eligible() const {
  std::vector<const Node*> nodes;
  std::map<NodeRank, std::size_t> of_pin;
  const auto claim = [](const Node* node) {
    return std::tuple(!node->seat && !node->previous, node->arrival);
  };
  for (const auto& [id, node] : nodes_) {
    if (node.is_leaving()) continue;
    if (node.facts.pinned) {
      const auto [place, is_first] = of_pin.try_emplace(*node.facts.pinned, nodes.size());
      if (!is_first) {
        const Node*& other = nodes[place->second];
        if (claim(&node) < claim(other)) other = &node;
        continue;
      }
    }
    nodes.push_back(&node);
  }
  return nodes;
}

}  // namespace ddprun::membership
