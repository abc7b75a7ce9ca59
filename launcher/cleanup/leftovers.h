#pragma once

#include "launcher/process/process_table.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/clock.h"

#include <boost/asio/io_context.hpp>
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What became of the processes that workers left behind.
struct Leftovers {
  std::vector<std::string> ended;  ///< "pid 4712 (python3)"
  /// "pid 4713 (dd), in state D (disk sleep)": SIGKILL did not end them in time.
  std::vector<std::string> surviving;
};

enum class SweepMode {
  kAskFirst,    ///< SIGTERM, and SIGKILL a second later: the job succeeded, a helper may be saving its work
  kKillAtOnce,  ///< SIGKILL
};

/// Ends what the workers left behind: daemons, process trees that outlived their parent. As this process is a
/// subreaper, every one of them is, or becomes, its direct child; of those, the ones with a mark of the job
/// are ended, and only direct children are ever signalled, so no pid can be mistaken. Processes appear as
/// their parents are killed: the sweep goes on until none is left.
///
/// Threads   none. Reaping is the owner's: it calls `children_changed` whenever it has reaped a process.
class LeftoverSweep {
 public:
  explicit LeftoverSweep(boost::asio::io_context& io) : timer_(io) {}

  /// `is_left` tells which children are its business. `on_done` may be called at once.
  void start(SweepMode mode, std::function<bool(const ProcessEntry&)> is_left,
             std::function<void(Leftovers)> on_done);
  void children_changed();
  [[nodiscard]] bool is_running() const { return on_done_ != nullptr; }

 private:
  void look();
  [[nodiscard]] bool is_to_give_up(const std::vector<pid_t>& left, TimePoint now) const;
  void note_survivor(pid_t pid);
  void finish();
  void arm(TimePoint at);
  [[nodiscard]] std::vector<pid_t> living() const;

  Alarm timer_;
  SweepMode mode_ = SweepMode::kKillAtOnce;
  std::function<bool(const ProcessEntry&)> is_left_;
  std::map<pid_t, std::string> signalled_;  // and their names, where they had not ended already
  TimePoint kill_at_{};
  std::optional<TimePoint> first_kill_;
  std::map<pid_t, TimePoint> killed_;  ///< when first
  Leftovers result_;
  std::function<void(Leftovers)> on_done_;
};

}  // namespace ddprun::launcher
