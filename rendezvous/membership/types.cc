#include "rendezvous/membership/types.h"

#include "rendezvous/base/exit_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace ddprun::membership {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kRunning:
      return "running";
    case Phase::kSucceeded:
      return "succeeded";
    case Phase::kStopping:
      return "stopping";
  }
  return "unknown";
}

std::string_view to_string(Weight weight) {
  switch (weight) {
    case Weight::kSymptom:
      return "symptom";
    case Weight::kDoubtful:
      return "doubtful";
    case Weight::kCause:
      return "cause";
  }
  return "unknown";
}

std::string_view to_string(OrderKind kind) {
  switch (kind) {
    case OrderKind::kWait:
      return "wait";
    case OrderKind::kRun:
      return "run";
    case OrderKind::kStop:
      return "stop";
    case OrderKind::kEnd:
      return "end";
  }
  return "unknown";
}

int exit_code_of_leaving(int signal) {
  return signal == SIGTERM ? exit_code::kTempFail : exit_code::kSignalBase + signal;
}

std::string placed(const std::string& what, const std::string& where) {
  const std::size_t clause = std::min(what.find_first_of(":,;"), what.size());
  return fmt::format("{} on {}{}", what.substr(0, clause), where, what.substr(clause));
}

std::string name_of(const NodeFacts& node) {
  return node.address.empty() ? fmt::format("node {}", node.host)
                              : fmt::format("node {} ({})", node.host, node.address);
}

}  // namespace ddprun::membership
