#pragma once

#include "rendezvous/membership/messages.h"

#include <optional>
#include <string>

namespace ddprun::membership {

/// What the coordinator holds a Hello against.
struct AdmissionRules {
  JobSpec spec;
  bool has_secret = false;
};

/// Why this agent cannot be a member, naming both sides and what to do; nullopt: it can (the secret still has
/// to be proven, and its node rank to be free).
std::optional<std::string> why_not_admitted(const Hello& hello, const AdmissionRules& rules);

/// "2" or "1:4"
std::string format_nnodes(int min_nodes, int max_nodes);

}  // namespace ddprun::membership
