#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"

#include <map>
#include <optional>
#include <string>

namespace ddprun::membership {

/// The durations of membership, with the --rdzv-conf key of each: in seconds, but for keep_alive_max_attempt.
struct Timing {
  Duration join_timeout = std::chrono::seconds(600);   ///< join_timeout: for the nodes to be there
  Duration debounce = std::chrono::seconds(2);         ///< last_call_timeout: for more of MIN:MAX after one
  Duration heartbeat = std::chrono::seconds(1);        ///< keep_alive_interval: between two proofs of life
  int missed_heartbeats = 5;                           ///< keep_alive_max_attempt: after which a node is lost
  Duration rejoin_timeout = std::chrono::seconds(10);  ///< rejoin_timeout: to find the coordinator again

  /// Silence after which the coordinator declares a node lost.
  [[nodiscard]] Duration liveness() const { return heartbeat * missed_heartbeats; }
  /// How long an agent that is not answered lets its workers run. A fifth shorter than `liveness`: by the
  /// time the others may start the next generation, its workers have been killed.
  [[nodiscard]] Duration lease() const { return liveness() * 4 / 5; }
};

/// What a coordinator may set, and an agent takes from it.
inline constexpr Duration kShortestHeartbeat = std::chrono::milliseconds(1);
inline constexpr Duration kLongestHeartbeat = std::chrono::hours(24);

/// What --rdzv-conf says.
struct RdzvConf {
  Timing timing;
  /// Whether this node runs the coordinator; unset: if the endpoint is its address.
  std::optional<bool> is_host;
};

/// Reads --rdzv-conf over the defaults.
///
/// Keys      those of Timing, and is_host; torchrun's others (close_timeout, heartbeat_timeout, read_timeout,
///           store_type, timeout, use_libuv, use_agent_store, rank) are accepted and have no meaning here.
/// Values    seconds from 0.001 to 1e8, last_call_timeout from 0, keep_alive_interval to a day; keep_alive_max_attempt
///           a whole number from 2 to 1000; is_host 1, true, True, 0, false or False.
/// Errors    kUsage: an unknown key (with the nearest name), and a value that is none of these.
Result<RdzvConf> parse_rdzv_conf(const std::map<std::string, std::string>& conf);

}  // namespace ddprun::membership
