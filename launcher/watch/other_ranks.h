#pragma once

#include "launcher/watch/sample.h"
#include "launcher/why/desk/other_nodes.h"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

/// What the other nodes of a job have told of their ranks, from one page to the next. Pure.
///
/// Bounded  what a node told stays for ten seconds when it says nothing more, with a sentence that says so.
class OtherRanks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// What was answered until `now`, when it had been waited for so long.
  void take(const why::OtherNodes& answer, pid_t launcher, Time now, std::chrono::milliseconds waited);

  /// Each with ranks, and with its sample before, from which its clock counts.
  [[nodiscard]] std::vector<NodeSamples> samples() const;
  /// Why there are not more, in a sentence for each node.
  [[nodiscard]] const std::vector<std::string>& unseen() const { return unseen_; }

 private:
  struct Told {
    NodeSamples samples;
    Time at;
  };

  void take(std::uint64_t number, const why::OtherNodes::Node& node, Time now,
            std::chrono::milliseconds waited);
  void age(std::uint64_t number, Time now, const std::string& silence);

  std::map<std::uint64_t, Told> told_;  ///< by the node's number
  std::vector<std::string> unseen_;
};

}  // namespace ddprun::launcher::watch
