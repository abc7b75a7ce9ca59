#pragma once

#include <functional>
#include <memory>

namespace ddprun::runtime {

/// Work of a device that was recorded once and is started as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Starts the work on the current stream, on the memory that it was recorded with. The host does nothing of what it
  /// did while it recorded.
  virtual void replay() = 0;
};

/// Calls `work`, and records what it asks of the current stream in place of doing it. Throws what `work` throws, and
/// what the device says where something cannot be recorded.
using Recorder = std::function<std::unique_ptr<Recording>(const std::function<void()>& work)>;

}  // namespace ddprun::runtime
