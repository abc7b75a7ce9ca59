#pragma once

#include "launcher/process/output.h"
#include "rendezvous/base/alarm.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>

namespace ddprun::launcher {

/// The job is over and its console has not taken everything yet: a slow one is given the time it needs, one
/// that takes nothing at all for ten seconds is left.
class ConsoleWait {
 public:
  ConsoleWait(boost::asio::io_context& io, JobOutput& output) : output_(output), timer_(io) {}

  /// Calls `on_done` once, at once when nothing is waited for.
  void start(std::function<void()> on_done);
  /// Waits no longer.
  void end();
  [[nodiscard]] bool is_running() const { return on_done_ != nullptr; }

 private:
  void look_again();

  JobOutput& output_;
  Alarm timer_;
  std::uint64_t taken_ = 0;
  std::function<void()> on_done_;
};

}  // namespace ddprun::launcher
