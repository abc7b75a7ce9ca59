#pragma once

#include "launcher/agent/round_source.h"
#include "launcher/agent/supervisor.h"
#include "rendezvous/membership/member_words.h"

namespace ddprun::launcher {

// What a node's supervisor and its member say to each other: what one does is an event to the other. Pure,
// and all there is between the two: the agent uses it, and so does the simulation of
// tests/scenario/membership.

/// The failure that `action` speaks of; `worker` is left to who can look at it.
LocalFailure failure_of(const PublishFailure& action, const Supervisor& supervisor);
/// The same for the other nodes.
membership::NodeFailure to_membership(const LocalFailure& failure);

/// Says the supervisor's action to the member, where it concerns it. `failure` belongs to PublishFailure.
void tell_member(membership::MemberWords& member, const Action& action,
                 const membership::NodeFailure& failure);

RoundBegins round_begins(const membership::Round& round);

}  // namespace ddprun::launcher
