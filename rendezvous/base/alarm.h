#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>

#include <utility>

namespace ddprun {

/// A timer that calls one handler, without arguments, when its time has come. Setting it again takes the
/// place of what it was set to before; once set again, cancelled, closed or destroyed, the former handler
/// does not run, not even when it was queued already (gate.h tells the problem).
///
/// Threads  none: the io_context's one thread.
class Alarm {
 public:
  explicit Alarm(boost::asio::io_context& io) : timer_(io) {}
  explicit Alarm(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  template <class Handler>
  void set_at(TimePoint when, Handler handler) {
    gate_.turn_away();
    if (!gate_.is_open()) return;
    timer_.expires_at(when);
    is_set_ = true;
    timer_.async_wait(
        gate_.pass([this, handler = std::move(handler)](boost::system::error_code error) mutable {
          is_set_ = false;
          if (!error) handler();
        }));
  }
  template <class Handler>
  void set_after(Duration delay, Handler handler) {
    set_at(BootClock::now() + delay, std::move(handler));
  }

  void cancel() {
    gate_.turn_away();
    is_set_ = false;
    timer_.cancel();
  }
  /// Cancels; setting it has no effect any more.
  void close() {
    cancel();
    gate_.close();
  }

  [[nodiscard]] bool is_set() const { return is_set_; }
  /// What it was set to last.
  [[nodiscard]] TimePoint time() const { return timer_.expiry(); }

 private:
  boost::asio::basic_waitable_timer<BootClock> timer_;
  bool is_set_ = false;
  Gate gate_;
};

}  // namespace ddprun
