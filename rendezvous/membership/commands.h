#pragma once

#include "rendezvous/base/log.h"
#include "rendezvous/membership/messages.h"
#include "rendezvous/membership/timing.h"
#include "rendezvous/membership/types.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// `ddprun coordinator --bind [HOST:]PORT --nnodes N|MIN:MAX --rdzv-id ID [--max-restarts K] [--rdzv-conf …]
/// [--rdzv-secret-file F]`, as parsed.
struct CoordinatorCommandOptions {
  std::string host;  ///< empty: every address
  Port port{29400};  ///< 0: the kernel chooses
  WorldSpec spec;
  Timing timing;
  std::string secret_file;            ///< empty: `secret`
  std::optional<std::string> secret;  ///< DDPRUN_SECRET
};

/// All that `ddprun coordinator` prints, and where the nodes' --log-funnel ends: made for the command's loop, gone
/// before it. Nothing blocks.
class LogConsole {
 public:
  virtual ~LogConsole() = default;
  virtual Logger& logger() = 0;
  /// A line of our own, on stderr.
  virtual void say(std::string_view line) = 0;
  virtual void show(std::uint64_t number, const std::string& node, const LogLines& lines) = 0;
  /// No more lines come: calls `on_done` and lets go of the loop once they are out, or nobody takes them.
  virtual void finish(std::function<void()> on_done) = 0;
  /// Waits for the end of `finish` no longer.
  virtual void leave() = 0;
};
using MakeLogConsole = std::function<std::unique_ptr<LogConsole>(boost::asio::io_context&)>;

/// Runs a coordinator, with the workers' store, on a machine that need not be a node: it survives every node.
/// Prints its port as the first line of stdout, and ends when the job has ended and the nodes have left.
/// Returns  the job's exit code; 128 + the signal after SIGTERM, SIGINT, SIGHUP (unless nohup is before it) or
///          SIGQUIT, which end the job on all nodes (the
///          second one at once, the third without waiting for the console); 69 when the address cannot be
///          had, 64 when the secret cannot be read. Reasons go to stderr.
int run_coordinator_command(const CoordinatorCommandOptions& options, const MakeLogConsole& make_console);

/// `ddprun drain --rdzv-endpoint HOST:PORT --rdzv-id ID [--node-rank K] [--rdzv-secret-file F]`, as parsed.
struct DrainCommandOptions {
  std::string host;
  Port port{29400};
  std::string run_id = "none";
  std::optional<NodeRank> node;       ///< none: the whole job
  std::string secret_file;            ///< empty: `secret`
  std::optional<std::string> secret;  ///< DDPRUN_SECRET
};

/// Asks the coordinator to drain: workers get SIGTERM and their grace to checkpoint; then a named node leaves
/// an elastic job, or the job ends on all nodes with code 75: requeue me. Returns  0 when the coordinator has
/// taken it; 69 when it cannot be reached, 64 when it refuses. Reasons go to stderr.
int run_drain_command(const DrainCommandOptions& options);

}  // namespace ddprun::membership
