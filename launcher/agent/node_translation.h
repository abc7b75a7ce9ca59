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
LocalFailure failure_of(const Action& action, const Supervisor& supervisor);
/// The same for the other nodes.
membership::NodeFailure to_membership(const LocalFailure& failure);

/// Says the supervisor's action to the member, where it concerns it. `failure` belongs to kPublishFailure.
void tell_member(membership::MemberWords& member, const Action& action,
                 const membership::NodeFailure& failure);

/// The member's words, as events of the supervisor.
Event round_begins_event(const membership::Round& round);
Event round_stopped_event(const std::string& reason);
Event lease_lost_event(const std::string& reason);
Event job_ended_event(int exit_code, const std::string& why);
Event rendezvous_lost_event(const Error& error);

}  // namespace ddprun::launcher
