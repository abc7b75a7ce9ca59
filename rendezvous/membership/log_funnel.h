#pragma once

#include "rendezvous/membership/messages.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

namespace ddprun::membership {

/// Workers' lines on their way to the coordinator's console (--log-funnel), until the kernel of the coordinator
/// has them. Pure.
///
/// Bounded   four mebibytes wait at most. What does not fit is dropped, and counted where it is missing; then
///           everything is, until half of them have gone, so that there are few gaps.
/// Loss      what is under way on a connection when that ends is counted in the same way.
class LogFunnel {
 public:
  static constexpr std::size_t kCapacityBytes = 4 * 1024 * 1024;

  /// `block` is whole lines, but for the last of a stream.
  void push(bool is_stderr, std::string_view block);
  /// The next message, in the order in which lines came; nullopt: nothing waits.
  std::optional<LogLines> pop();

  /// `lines` were sent, and end with byte `end` of the connection.
  void sent(const LogLines& lines, std::uint64_t end);
  /// The other side has the first `bytes` of the connection.
  void arrived(std::uint64_t bytes);
  /// It gets no more of it. The next connection begins at 0.
  void connection_ended();
  /// Of lines that were sent and have not arrived whole.
  [[nodiscard]] std::size_t bytes_under_way() const;
  /// Bytes sent but not confirmed when their connection ended.
  [[nodiscard]] std::size_t bytes_lost() const { return bytes_lost_; }

 private:
  struct UnderWay {
    std::uint64_t end = 0;
    std::size_t bytes = 0;
    std::uint64_t lines = 0;  ///< and those said to be missing before them
  };
  void append(bool is_stderr, std::string_view piece);

  std::deque<LogLines> waiting_;
  std::size_t bytes_ = 0;
  bool is_dropping_ = false;
  std::uint64_t dropped_ = 0;  ///< since the last line that was kept
  std::deque<UnderWay> under_way_;
  std::size_t bytes_lost_ = 0;
};

}  // namespace ddprun::membership
