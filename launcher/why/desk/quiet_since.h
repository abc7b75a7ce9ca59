#pragma once

#include <atomic>
#include <optional>

namespace ddprun::launcher::why {

/// Since when no rank of this node has shown that it gets on. The watch for hangs feels that, and tells it to the
/// processes that look for other nodes, which see a rank for a second alone.
///
/// Process  memory that forks of the launcher share with it; where there is none, nothing is told.
class QuietSince {
 public:
  QuietSince();
  ~QuietSince();
  QuietSince(const QuietSince&) = delete;
  QuietSince& operator=(const QuietSince&) = delete;

  /// CLOCK_BOOTTIME, in seconds.
  void tell(double at_s);
  /// Nobody feels it any more.
  void forget();
  [[nodiscard]] std::optional<double> told() const;

 private:
  std::atomic<double>* at_ = nullptr;  ///< negative: not told
};

}  // namespace ddprun::launcher::why
