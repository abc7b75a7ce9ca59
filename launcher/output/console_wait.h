#pragma once

#include "launcher/output/output.h"
#include "rendezvous/base/alarm.h"

#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>

namespace ddprun::launcher {

/// The job is over and its console has not taken everything yet. One that takes nothing at all for ten seconds
/// is left; a slow one is given the time it needs, unless somebody has told the job to end.
class ConsoleWait {
 public:
  enum class Patience {
    kWhileItTakes,  ///< anything at all within ten seconds
    kTenSeconds,    ///< in total: whoever sent a signal will soon send SIGKILL
  };

  ConsoleWait(boost::asio::io_context& io, JobOutput& output) : output_(output), timer_(io) {}

  /// Calls `on_done` once, at once when nothing is waited for.
  void start(Patience patience, std::function<void()> on_done);
  /// Waits no longer.
  void end();

 private:
  void look_again();
  void say_that_it_waits();

  JobOutput& output_;
  Alarm timer_;
  Patience patience_ = Patience::kWhileItTakes;
  std::uint64_t taken_ = 0;
  bool has_said_ = false;
  std::function<void()> on_done_;
};

}  // namespace ddprun::launcher
