#pragma once

#include "launcher/cli/options.h"
#include "rendezvous/base/ids.h"
#include "rendezvous/base/name_lookup.h"
#include "rendezvous/membership/rendezvous.h"

#include <optional>

namespace ddprun::launcher {

/// Where the workers find the store and the nodes of a job of several meet, and what this node knows of its place
/// before they have.
/// The addresses are look_up_meeting()'s; none where this node needs none.
struct MeetingPlace : ListenAt {
  membership::CoordinatorPlace coordinator = membership::CoordinatorPlace::kHere;
  std::optional<NodeRank> node_rank;  ///< settled by the command line; otherwise the coordinator gives one
};

/// One node serves its own store, at --rdzv-endpoint, or --master-addr and --master-port; without a port the kernel
/// chooses one. Of several nodes, static (--node-rank, --master-addr): node 0 runs the coordinator, and ranks are
/// fixed; otherwise the node to which the endpoint's host belongs runs it, if any. `is_host` of --rdzv-conf settles
/// it. Where no port is named, several nodes agree on torchrun's without a word. Pure.
/// Errors  kUsage: an endpoint without a port where torchrun wants one.
Result<MeetingPlace> meeting_of(const Options& options);

/// The addresses that `meeting` needs. Blocks as look_up() does, so that it has its place before signals wait for
/// the loop. Errors kUnavailable: this node must listen there, and the name is unknown.
Result<HostAddresses> look_up_meeting(const MeetingPlace& meeting, bool is_alone);

}  // namespace ddprun::launcher
