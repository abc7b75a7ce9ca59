#pragma once

#include "launcher/plan/plan.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/membership/rendezvous.h"

#include <optional>
#include <string>

namespace ddprun::launcher {

/// Where the nodes of a job of several meet, and what this node knows of its place before they have.
struct Meeting {
  membership::CoordinatorPlace coordinator = membership::CoordinatorPlace::kIfOurs;
  std::string host;
  Port port;                          ///< 0: the kernel chooses where the coordinator runs
  std::optional<NodeRank> node_rank;  ///< settled by the command line; otherwise the coordinator gives one
};

/// The port that is meant where none is named: torchrun's, on which several nodes agree without a word; 0 for
/// one.
Port usual_port(const Options& options);

/// static (--node-rank, --master-addr): node 0 runs the coordinator, and ranks are fixed. Otherwise the node
/// to which the endpoint's host belongs runs it, if any. `is_host` of --rdzv-conf settles it. Pure.
/// Needs  a plan that make_plan made: its --rdzv-conf has been checked.
Meeting meeting_of(const Plan& plan);

/// The addresses of the host where the nodes meet, or where the store of one node listens; none where this
/// node has no use for them. Blocks as look_up() does, so that it has its place before signals wait for the
/// loop. Errors kUnavailable: this node must listen there, and the name is unknown.
Result<HostAddresses> look_up_meeting(const Plan& plan);

/// The first round as far as it is known before it: with a fixed rank and as many workers on each node as
/// here; else as node 0 of the most nodes. For one node, single_node_round.
RoundInfo expected_round(const Plan& plan);

/// What --dry-run says of it: "2, this is node 1; they meet at node-a port 29500, where node 0 listens".
std::string describe_meeting(const Plan& plan);

}  // namespace ddprun::launcher
