#pragma once

#include "launcher/agent/supervisor.h"
#include "rendezvous/membership/member_words.h"

namespace ddprun::launcher {

// What a node's supervisor says to its member, whose words are events of the supervisor as they are. Pure, and all
// there is between the two: the agent uses it, and so does the simulation of tests/scenario/membership.

/// The failure that `action` speaks of, as far as the supervisor knows it: who can look at the workers knows more.
membership::NodeFailure failure_of(const PublishFailure& action, const Supervisor& supervisor);

/// Says the supervisor's action to the member, where it concerns it. `failure` belongs to PublishFailure.
void tell_member(membership::MemberWords& member, const Action& action,
                 const membership::NodeFailure& failure);

}  // namespace ddprun::launcher
