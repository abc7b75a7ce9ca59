#pragma once

#include "launcher/plan/plan.h"
#include "launcher/report/observer.h"
#include "launcher/why/hang/hang_process.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// What a job file says of hangs.
struct JobHangTimeout {
  double seconds = 0;     ///< 0: never
  bool is_asked = false;  ///< it stands there, and is not the default
};

/// --hang-report and --hang-timeout; without the latter, what the job file says. A flag of 0 silences the file.
HangLimits hang_limits(const Options& options, const std::optional<JobHangTimeout>& job);

/// --hang-report and --hang-timeout: has a process look at the workers once half of the first limit has passed, prints
/// the page, and, when the time-out is over, kills the guilty workers, so that they are the root cause like any other
/// that was killed; if they survive that, all.
///
/// Threads  none: the io_context's one thread, which waits for nothing.
class HangWatch final : public Observer {
 public:
  struct Parts {
    boost::asio::io_context& io;
    const Plan& plan;
    QuietSince& quiet;
    std::function<void(std::string_view page)> print;
    /// `rank` is about to be killed, for that.
    std::function<void(int rank, const HangEnd& end, const std::string& page)> note_end;
    /// What was found, before anybody is killed for it.
    std::function<void(const Hang&)> tell_hang;
    std::function<void(const Straggler&)> tell_straggler;
  };
  HangWatch(Parts parts, HangLimits limits)
      : parts_(std::move(parts)), limits_(limits), begin_(parts_.io), descriptor_(parts_.io) {}

  void round_begins(const membership::Round& round) override;
  void worker_spawned(const membership::Round& round, const WorkerOutcome& worker) override;
  void worker_exited(const membership::Round& round, const WorkerOutcome& worker) override;
  void stopping(const membership::Round& round, StopReason reason, const std::string& why) override;
  void generation_ended(const GenerationOutcome& outcome) override;

 private:
  void stop();
  void begin();
  void read();
  void take(std::string_view line);
  void end_workers(const Hang& hang);

  Parts parts_;
  HangLimits limits_;
  Alarm begin_;
  JobPicture picture_;
  std::vector<RankTarget> targets_;  ///< pid 0: it has ended
  std::optional<Beside> watcher_;
  boost::asio::posix::stream_descriptor descriptor_;
  std::array<char, 4096> buffer_{};
  std::string text_;
  bool has_killed_ = false;
  Gate gate_;
};

}  // namespace ddprun::launcher::why
