#pragma once

#include "rendezvous/base/clock.h"
#include <ddprun/init.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

namespace ddprun::training {

/// SIGTERM as a request to stop in good order: the training loop looks at it between two steps, so that a
/// checkpoint can be written. A process that makes no progress after the signal (it waits for a rank that has
/// died) ends at once, with 128 + SIGTERM, and so does one that gets a second signal.
///
/// Threads  SIGTERM is blocked in the thread that makes one and in all it starts afterwards; a thread of its
/// own waits
///          for it. One per process. The destructor ends that thread; the signal stays blocked.
class StopRequest {
 public:
  explicit StopRequest(const Clock& clock);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  [[nodiscard]] bool is_requested() const { return requested_.load(std::memory_order_relaxed); }
  /// A step is done. Before the first one the process ends at the signal as any other does.
  void progress();
  /// What comes now (writing a checkpoint) may take its time.
  void take_time();

 private:
  void watch(const std::stop_token& stop);
  [[nodiscard]] Duration patience() const;
  [[nodiscard]] bool is_stuck() const;

  const Clock& clock_;
  std::atomic<bool> requested_ = false;
  std::atomic<std::int64_t> last_progress_ns_ = 0;  // 0: none yet; kTakesTime: no limit
  std::atomic<std::int64_t> longest_step_ns_ = 0;
  std::jthread thread_;
};

/// The step after which all ranks stop, agreed through the store without a collective: the first rank that
/// asks proposes one that lies `margin` steps ahead, far enough for the signal to reach the others, and all
/// take the first proposal.
std::int64_t agree_stop_step(const Context& context, std::int64_t step, std::int64_t margin);

/// True when every rank has come to the stop step before `timeout` has passed: only then may they use
/// collectives again.
bool meet_at_stop(const Context& context, Duration timeout);

}  // namespace ddprun::training
