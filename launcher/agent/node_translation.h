#pragma once

#include "launcher/agent/round_source.h"
#include "launcher/agent/supervisor.h"
#include "rendezvous/membership/member_words.h"

#include <string>

namespace ddprun::launcher {

// What a node's supervisor and its member say to each other: what one does is an event to the other. Pure,
// and all there is between the two: the agent uses it, and so does the simulation of
// tests/scenario/membership.

/// The failure that `action`, a kPublishFailure, speaks of; `worker` is left to who can look at it.
NodeFailure failure_of(const Action& action, const Supervisor& supervisor);
/// The same for the other nodes.
membership::NodeFailure to_membership(const NodeFailure& failure);

/// Says the supervisor's action to the member, where it concerns it. `failure` belongs to kPublishFailure.
void tell_member(membership::MemberWords& member, const Action& action,
                 const membership::NodeFailure& failure);

/// The member's words, as events of the supervisor.
Event round_closed_event(Rank base_rank, TimePoint valid_until);
Event stop_event(const std::string& reason);
Event kill_event(const std::string& reason);
Event job_over_event(int exit_code, const std::string& why);
Event rendezvous_lost_event(const Error& error);

}  // namespace ddprun::launcher
