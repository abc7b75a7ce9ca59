#pragma once

#include "launcher/agent/round_source.h"
#include "launcher/agent/supervisor.h"
#include "rendezvous/membership/member_words.h"

namespace ddprun::launcher {

// What a node's supervisor and its member say to each other: what one does is an event to the other. Pure,
// and all there is between the two: the agent uses it, and so does the simulation of
// tests/scenario/membership.

/// The failure that `action` speaks of, as far as the supervisor knows it.
membership::NodeFailure failure_of(const PublishFailure& action, const Supervisor& supervisor);
/// To that, from who can look at the workers: how the guilty one ended.
void add_outcome(membership::NodeFailure& failure, const WorkerOutcome& guilty);
/// To that, the words of the guilty one, or of the victim, where there is one.
void add_words(membership::NodeFailure& failure, const WorkerOutcome& speaker, const Account& account);

/// Says the supervisor's action to the member, where it concerns it. `failure` belongs to PublishFailure.
void tell_member(membership::MemberWords& member, const Action& action,
                 const membership::NodeFailure& failure);

RoundBegins round_begins(const membership::Round& round);

}  // namespace ddprun::launcher
