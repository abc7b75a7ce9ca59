#include "rendezvous/base/signal_name.h"
#include "rendezvous/membership/attendance.h"
#include "rendezvous/membership/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

// What a job tells its nodes, and people.

namespace ddprun::membership {
namespace {

constexpr Duration kQuietWait =
    std::chrono::milliseconds(1500);  // nodes that come this soon are not worth a line

}  // namespace

std::optional<NodeRank> Job::place_of(const Node& node) {
  return node.seat ? std::optional(node.seat->node_rank) : node.previous;
}

// With its rank where it has one: two agents of one host are two nodes.
std::string Job::name_of(const Node& node) {
  const std::optional<NodeRank> place = place_of(node);
  if (!place) return membership::name_of(node.facts);
  return fmt::format("node {} ({}, {})", *place, node.facts.host, node.facts.address);
}

std::string Job::placed(const std::string& what, const Node& node) const {
  return spec_.max_nodes == 1 ? what : membership::placed(what, name_of(node));
}

JobEnd Job::ended_by_leaving(const Node& node) const {
  if (node.ends_with) return *node.ends_with;
  const std::string how = drained_.contains(node.facts.id)
                              ? std::string("was drained")
                              : "was told to stop by " + signal_name(node.leaving_signal);
  return {.exit_code = exit_code_of_leaving(node.leaving_signal),
          .why = fmt::format("{} {}", name_of(node), how),
          .restarts_used = restarts_.restarts_used()};
}

Order Job::order_for(const Node& node, TimePoint now) const {
  Order order{.acknowledged = node.last.sequence, .generation = generation_};
  if (state_ == JobPhase::kEnded) {
    order.kind = OrderKind::kEnd;
    order.end = end_;
  } else if (node.is_leaving() && (!node.seat || is_idle(node)) && !cause_.ending()) {
    order.kind = OrderKind::kEnd;
    order.end = ended_by_leaving(node);
  } else if (state_ == JobPhase::kStopping && node.seat && !reports_idle(node)) {
    order.kind = OrderKind::kStop;
    order.text = cause_.why();
  } else if (state_ == JobPhase::kRunning && node.seat) {
    order.kind = OrderKind::kRun;
    const bool has_begun = node.last.generation == generation_;
    if (!has_begun) {
      order.seat = node.seat;
      order.restart = restart_;
    }
  } else if (node.arrival <= described_arrivals_ &&
             (state_ == JobPhase::kRunning || now - opened_at_ >= kQuietWait)) {
    order.text =
        state_ == JobPhase::kRunning ? fmt::format("waiting as a spare: {}", description_) : description_;
  }
  if (order.kind == OrderKind::kWait && state_ == JobPhase::kGathering) order.restart = restart_;
  return order;
}

std::optional<std::string> Job::refuse(const NodeFacts& facts, bool has_seat, TimePoint now) const {
  if (facts.pinned && (facts.pinned->value() < 0 || facts.pinned->value() >= spec_.max_nodes)) {
    return fmt::format(
        "{} asks for node rank {}, but the ranks of at most {} nodes are 0 to {}; check --node-rank and "
        "--nnodes",
        membership::name_of(facts), facts.pinned->value(), spec_.max_nodes, spec_.max_nodes - 1);
  }
  if (nodes_.contains(facts.id)) return std::string("this agent has joined already");
  if (state_ == JobPhase::kEnded) {
    if (facts.replaces) return std::nullopt;  // it took part, and is told the end
    return fmt::format("job {} has ended", spec_.run_id);
  }
  if (const std::string* why = lost_nodes_.why_expelled(facts.id)) return *why;
  if (!facts.pinned || has_seat) return std::nullopt;
  for (const auto& [id, other] : nodes_) {
    const bool holds_it =
        other.facts.pinned == facts.pinned || (other.seat && other.seat->node_rank == *facts.pinned);
    if (!holds_it || other.is_leaving() || now - other.last_heard >= 2 * timing_.heartbeat) continue;
    return fmt::format("node rank {} of {} is taken by {}; give every node its own --node-rank",
                       facts.pinned->value(), membership::name_of(facts), name_of(other));
  }
  return std::nullopt;
}

std::optional<std::string> Job::why_not_drained(std::optional<NodeRank> rank) const {
  if (state_ == JobPhase::kEnded) return fmt::format("job {} has ended", spec_.run_id);
  if (!rank) return std::nullopt;
  std::set<int> ranks;
  for (const auto& [id, node] : nodes_) {
    if (!node.seat) continue;
    if (node.seat->node_rank == *rank) return std::nullopt;
    ranks.insert(node.seat->node_rank.value());
  }
  return fmt::format("no node of rank {} runs in job {}; running node ranks: {}", *rank, spec_.run_id,
                     ranks.empty() ? std::string("none") : fmt::format("{}", fmt::join(ranks, ", ")));
}

std::string Job::describe(TimePoint now) const {
  Attendance attendance{.min_nodes = spec_.min_nodes, .max_nodes = spec_.max_nodes, .missing = missing()};
  for (const Node* node : eligible()) attendance.here.push_back(name_of(*node));
  for (const auto& [id, node] : nodes_) {
    if (state_ == JobPhase::kStopping && node.seat && !reports_idle(node))
      attendance.stopping.push_back(name_of(node));
  }
  if (lost_nodes_.fenced_until() > now) attendance.fence = timing_.liveness();
  return to_sentence(std::move(attendance));
}

std::vector<std::string> Job::awaited() const {
  std::vector<std::string> names;
  for (const auto& [id, node] : nodes_) {
    if (state_ == JobPhase::kEnded || (node.seat && !reports_idle(node))) names.push_back(name_of(node));
  }
  for (std::string& name : awaited_to_hear(last_event_)) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> Job::missing() const {
  std::vector<std::string> names;
  if (state_ == JobPhase::kRunning || view().ready >= spec_.max_nodes) return names;
  bool everyone_is_pinned = !nodes_.empty();
  std::set<int> here;
  for (const auto& [id, node] : nodes_) {
    if (node.facts.pinned) {
      here.insert(node.facts.pinned->value());
    } else {
      everyone_is_pinned = false;
    }
  }
  for (const VacantSeat& vacant : lost_nodes_.vacant_seats()) {
    names.push_back(fmt::format("node rank {} ({})", vacant.rank, vacant.what));
  }
  if (names.empty() && everyone_is_pinned) {
    for (int rank = 0; rank < spec_.max_nodes; ++rank) {
      if (!here.contains(rank)) names.push_back(fmt::format("node rank {}", rank));
    }
  }
  return names;
}

}  // namespace ddprun::membership
