#pragma once

#include "rendezvous/membership/messages.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

namespace ddprun::membership {

/// Workers' lines on their way to the coordinator's console (--log-funnel). Pure.
///
/// Bounded   four mebibytes wait at most. What does not fit is dropped, and counted where it is missing; then
///           everything is, until half of them have gone, so that there are few gaps.
class LogFunnel {
 public:
  static constexpr std::size_t kCapacityBytes = 4 * 1024 * 1024;

  /// `block` is whole lines, but for the last of a stream.
  void push(bool is_stderr, std::string_view block);
  /// The next message, in the order in which lines came; nullopt: nothing waits.
  std::optional<LogLines> take();

  [[nodiscard]] bool empty() const { return waiting_.empty() && dropped_ == 0; }

 private:
  void append(bool is_stderr, std::string_view piece);

  std::deque<LogLines> waiting_;
  std::size_t bytes_ = 0;
  bool is_dropping_ = false;
  std::uint64_t dropped_ = 0;  ///< since the last line that was kept
};

}  // namespace ddprun::membership
