#pragma once

#include "launcher/output/console_wait.h"
#include "launcher/output/output.h"
#include "rendezvous/base/log.h"
#include "rendezvous/membership/messages.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// All that `ddprun coordinator` prints, our stdout and stderr, and where the nodes' --log-funnel ends. Nothing
/// blocks: what they do not take waits, in bounds; at the end a console that takes nothing for ten seconds is
/// left.
class FunnelConsole {
 public:
  FunnelConsole(boost::asio::io_context& io, spdlog::level::level_enum level);

  [[nodiscard]] Logger& logger() { return *logger_; }
  /// A line of our own, on stderr.
  void say(std::string_view line) { output_.say(line); }
  void show(ConnectionId connection, const std::string& node, const membership::LogLines& lines);
  /// No more lines come: calls `on_done` and lets go of the loop once they are out, or nobody takes them.
  void finish(std::function<void()> on_done);
  /// Waits for the end of `finish` no longer.
  void leave() { wait_.end(); }

 private:
  JobOutput output_;
  std::shared_ptr<Logger> logger_;
  ConsoleWait wait_;
};

}  // namespace ddprun::launcher
