#include "launcher/plan/meeting.h"

#include "rendezvous/membership/timing.h"

#include <fmt/format.h>

namespace ddprun::launcher {
namespace {

using membership::CoordinatorPlace;

constexpr std::uint16_t kStaticPort = 29500;
constexpr std::uint16_t kDynamicPort = 29400;

bool is_static(const Options& options) {
  const bool has_address = options.rdzv_endpoint.empty() || options.node_rank.has_value();
  return options.rdzv_backend == "static" && has_address && options.min_nodes == options.max_nodes;
}

CoordinatorPlace place_of(const Options& options) {
  const auto conf = membership::parse_rdzv_conf(options.rdzv_conf);
  if (conf && conf->is_host) return *conf->is_host ? CoordinatorPlace::kHere : CoordinatorPlace::kElsewhere;
  if (!is_static(options)) return CoordinatorPlace::kIfOurs;
  return options.node_rank.value_or(0) == 0 ? CoordinatorPlace::kHere : CoordinatorPlace::kElsewhere;
}

std::string_view listener_phrase(CoordinatorPlace place) {
  switch (place) {
    case CoordinatorPlace::kHere:
      return "where this node listens";
    case CoordinatorPlace::kElsewhere:
      return "where another node listens";
    case CoordinatorPlace::kIfOurs:
      return "where the node listens to which that address belongs, or ddprun coordinator";
  }
  return "";
}

}  // namespace

Port usual_port(const Options& options) {
  if (options.max_nodes == 1) return Port(0);
  return Port(is_static(options) ? kStaticPort : kDynamicPort);
}

Meeting meeting_of(const Plan& plan) {
  const Options& options = plan.options;
  Meeting meeting;
  meeting.coordinator = place_of(options);
  meeting.host = plan.master_addr;
  meeting.port = plan.master_port;
  if (options.node_rank) meeting.node_rank = NodeRank(*options.node_rank);
  if (is_static(options)) meeting.node_rank = NodeRank(options.node_rank.value_or(0));
  return meeting;
}

Result<HostAddresses> look_up_meeting(const Plan& plan) {
  const bool is_alone = plan.options.max_nodes == 1;
  const CoordinatorPlace place = is_alone ? CoordinatorPlace::kHere : place_of(plan.options);
  if (!is_alone && !membership::needs_addresses(place, plan.master_addr)) return HostAddresses();
  Result<HostAddresses> found = look_up(plan.master_addr);
  if (found || place == CoordinatorPlace::kHere) return found;
  return HostAddresses();  // not ours, then; the look-ups that follow say what is wrong
}

RoundInfo expected_round(const Plan& plan) {
  RoundInfo round = single_node_round(plan, plan.master_port);
  const int nodes = plan.options.max_nodes;
  if (nodes == 1) return round;
  const Meeting meeting = meeting_of(plan);
  const int workers = plan.local_world_size.value();
  round.group_rank = meeting.node_rank.value_or(NodeRank(0));
  round.group_world_size = nodes;
  round.base_rank = Rank(round.group_rank.value() * workers);
  round.base_role_rank = round.base_rank;
  round.world_size = WorldSize(nodes * workers);
  round.role_world_size = round.world_size;
  round.master_port = meeting.port;
  return round;
}

std::string describe_meeting(const Plan& plan) {
  const Options& options = plan.options;
  const Meeting meeting = meeting_of(plan);
  const int workers = plan.local_world_size.value();
  const bool is_elastic = options.min_nodes < options.max_nodes;
  const std::string count = is_elastic ? fmt::format("{} to {}", options.min_nodes, options.max_nodes)
                                       : std::to_string(options.max_nodes);
  const std::string place = meeting.port.value() == 0
                                ? fmt::format("{}, at a port that the kernel chooses", meeting.host)
                                : fmt::format("{} port {}", meeting.host, meeting.port);
  std::string text = fmt::format("nodes      {}, {}; they meet at {}, {}\n", count,
                                 meeting.node_rank ? fmt::format("this is node {}", *meeting.node_rank)
                                                   : "this node's rank is not known yet",
                                 place, listener_phrase(meeting.coordinator));
  const std::string same =
      fmt::format("as if each node had {} {}", workers, workers == 1 ? "worker" : "workers");
  text += fmt::format(
      "           the ranks below are {}{}; the rendezvous decides\n",
      meeting.node_rank && !is_elastic
          ? std::string()
          : fmt::format("those of node {} of {}, ", expected_round(plan).group_rank, options.max_nodes),
      same);
  return text;
}

}  // namespace ddprun::launcher
