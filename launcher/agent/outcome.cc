#include "launcher/agent/outcome.h"

namespace ddprun::launcher {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSucceeded:
      return "succeeded";
    case Verdict::kRootCause:
      return "root cause";
    case Verdict::kConsequence:
      return "consequence";
    case Verdict::kNotEnded:
      return "not ended";
    case Verdict::kNotStarted:
      return "not started";
  }
  return "?";
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kSucceeded:
      return "succeeded";
    case StopReason::kWorkerFailed:
      return "worker failed";
    case StopReason::kSpawnFailed:
      return "spawn failed";
    case StopReason::kSignal:
      return "signal";
    case StopReason::kJobTimeout:
      return "job timeout";
    case StopReason::kPeerFailed:
      return "peer failed";
    case StopReason::kRendezvousFailed:
      return "rendezvous failed";
  }
  return "?";
}

}  // namespace ddprun::launcher
