#pragma once

#include "rendezvous/base/ids.h"
#include "rendezvous/membership/messages.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ddprun::membership {

/// The coordinator's part of `ddprun why` and of `ddprun ps --watch`: who asked, who has to answer, and where an answer
/// goes. Pure.
///
/// Bounded  an agent has one look of a kind at a time, the newest. All answers to it together have `kAllBytes`, or
///          `kLeastBytes` for each node where those are many; what a node says beyond its share is left out.
class Looks {
 public:
  static constexpr std::size_t kAllBytes = 4 * 1024 * 1024;
  static constexpr std::size_t kMostBytes = 1024 * 1024;
  static constexpr std::size_t kLeastBytes = 16 * 1024;
  /// Of a part, however little it says: it takes memory as well.
  static constexpr std::size_t kLeastCost = 64;

  struct Forward {
    ConnectionId to;
    LookAnswer answer;  ///< without its name
  };

  /// What every node of `nodes` is to be sent.
  LookRequest begin(ConnectionId asker, std::uint64_t number, const std::vector<ConnectionId>& nodes,
                    LookKind kind = LookKind::kWhy);
  /// Nullopt: nobody waits for this, or not from this node.
  std::optional<Forward> answered(ConnectionId node, LookAnswer answer);
  /// What that says to those who wait for this connection's answer.
  std::vector<Forward> gone(ConnectionId connection);

 private:
  struct Look {
    ConnectionId asker;
    std::uint64_t number = 0;
    LookKind kind = LookKind::kWhy;
    std::map<ConnectionId, std::size_t> bytes_left;  ///< by who has not said the last word yet
  };
  std::map<std::uint64_t, Look> looks_;
  std::uint64_t count_ = 0;
};

}  // namespace ddprun::membership
