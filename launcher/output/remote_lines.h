#pragma once

#include "launcher/output/console.h"
#include "launcher/output/outlet.h"
#include "rendezvous/base/ids.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Shows what workers of other nodes have written (--log-funnel) on the consoles of this one.
///
/// Bounded   when `kMostBacklog` bytes wait for a console that takes nothing, further lines are dropped, and
///           said with their number as soon as it takes some again.
class RemoteLines {
 public:
  /// More than this node's own workers fill, which wait while half of what may wait does.
  static constexpr std::uint64_t kMostBacklog = Outlet::kMostWaiting / 4 * 3;

  /// Both outlive it, and may be one.
  RemoteLines(Console& out, Console& err) : out_(out), err_(err) {}

  /// `connection` tells nodes apart, `node` is its name; `missing_before` lines did not come.
  void show(ConnectionId connection, const std::string& node, bool is_stderr, std::string_view text,
            std::uint64_t missing_before);
  /// The job is over: says what was dropped last.
  void finish();

 private:
  void say_missing(const std::string& node, std::uint64_t count, const char* why);

  Console& out_;
  Console& err_;
  std::map<std::string, std::uint64_t> dropped_;  ///< lines, by node
};

}  // namespace ddprun::launcher
