#pragma once

#include "rendezvous/base/log.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/membership/member.h"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::membership::testing {

/// A node without workers: what it is told, and what it does at once.
struct LoopbackNode final : Listener {
  void heard(const MemberEvent& event) override {
    std::visit([this](const auto& what) { hear(what); }, event);
  }
  void hear(const Waiting& told) { waiting.push_back(told.text); }
  void hear(const RestartGranted&) {}
  void hear(const RoundBegins& begins) { rounds.push_back(begins.round); }
  void hear(const RoundStopped& stopped) {
    stops.push_back(stopped.why);
    if (stops_at_once) member->workers_stopped();
  }
  void hear(const LeaseLost& lost) {
    kills.push_back(lost.why);
    member->workers_stopped();
  }
  void hear(const JobEnded& ended) { end = ended.end; }
  void hear(const RendezvousLost& lost) { failed = lost.error; }

  std::unique_ptr<Member> member;
  bool stops_at_once = true;
  std::vector<std::string> waiting;
  std::vector<Round> rounds;
  std::vector<std::string> stops;
  std::vector<std::string> kills;
  std::optional<JobEnd> end;
  std::optional<Error> failed;
};

/// A coordinator and nodes in one process, over real sockets on 127.0.0.1.
class LoopbackWorld {
 public:
  explicit LoopbackWorld(const JobSpec& spec, const Timing& timing = {}, const std::string& secret = {});

  /// Options of a node that fits the coordinator; a test spoils what it likes.
  [[nodiscard]] MemberOptions fitting(const std::string& name) const;
  LoopbackNode& join(const MemberOptions& options);
  LoopbackNode& join(const std::string& name) { return join(fitting(name)); }

  /// Runs the loop until `holds`; false when it does not within `limit`.
  template <class Holds>
  bool run_until(Holds holds, std::chrono::milliseconds limit = std::chrono::seconds(5)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) return false;
      io.restart();
      io.run_one_for(end - now);
    }
    return true;
  }

  boost::asio::io_context io{1};
  std::shared_ptr<Logger> logger = make_null_logger();
  JobSpec spec;
  std::string secret;
  std::unique_ptr<Coordinator> coordinator;
  std::vector<std::unique_ptr<LoopbackNode>> nodes;
};

}  // namespace ddprun::membership::testing
