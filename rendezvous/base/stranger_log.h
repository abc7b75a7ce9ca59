#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/log.h"

#include <cstdint>
#include <string_view>

namespace ddprun {

/// Lines that somebody can make us write by opening connections: each is one line of at most 600 bytes that a
/// terminal can bear, and of more than twenty in ten seconds the rest is counted instead.
///
/// Lifetime  the logger outlives it. The destructor tells what was left out last.
class StrangerLog {
 public:
  static constexpr int kMostLines = 20;
  static constexpr Duration kPeriod = std::chrono::seconds(10);
  static constexpr std::size_t kLongestLine = 600;

  explicit StrangerLog(Logger& logger) : logger_(logger) {}
  ~StrangerLog() { tell_left_out(); }
  StrangerLog(const StrangerLog&) = delete;
  StrangerLog& operator=(const StrangerLog&) = delete;

  void warn(TimePoint now, std::string_view text);
  /// Says how many lines were left out since the last one that was not.
  void tell_left_out();

 private:
  Logger& logger_;
  TimePoint began_{};
  int lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace ddprun
