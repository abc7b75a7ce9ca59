#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace ddprun {

/// Lets the handlers of one owner run for as long as the owner wants them to.
///
/// The problem: cancel() and close() of an asio object take back only what still waits. A handler whose time
/// had come before is queued already; it runs afterwards with an error code that says *success*, on an owner
/// that has closed its descriptors, or is gone. So `if (error) return;` is not enough. Here a handler asks
/// its owner's gate instead:
///
///     descriptor_.async_wait(wait_read, gate_.pass([this](error_code error) { … }));
///
/// Rule      every handler given to asio in launcher/ and rendezvous/ goes through a gate
///           (scripts/check_handlers.py holds every call against it); timers are Alarms, which do it by
///           themselves. Callbacks that an object hands to another one which may outlive it go through its
///           gate as well.
/// Lifetime  the gate is a member of the owner, and its last one: then it closes first. A handler that was
///           let through may close the gate; one that destroys the owner must not touch it afterwards.
/// Cost      one shared number for each owner, one pointer and one comparison for each handler.
/// Threads   none: the owner's.
class Gate {
 public:
  Gate() : season_(std::make_shared<std::uint64_t>(0)) {}
  ~Gate() { close(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// `handler`, for one run or many, which does nothing once the gate has been closed or has turned away what
  /// passed before.
  template <class Handler>
  [[nodiscard]] auto pass(Handler handler) const {
    return [season = season_, mine = *season_, handler = std::move(handler)](auto&&... arguments) mutable {
      if (*season == mine && mine != kClosed) handler(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  /// What has passed so far will not run; what passes from now on will.
  void turn_away() {
    if (is_open()) ++*season_;
  }
  /// Nothing runs any more, whenever it passed. For good.
  void close() { *season_ = kClosed; }
  [[nodiscard]] bool is_open() const { return *season_ != kClosed; }

 private:
  static constexpr std::uint64_t kClosed = std::numeric_limits<std::uint64_t>::max();
  std::shared_ptr<std::uint64_t> season_;
};

}  // namespace ddprun
