#pragma once

#include "rendezvous/base/gate.h"
#include "rendezvous/base/quiet_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun {

/// One piece of work that may block for ever, on a thread of its own, whose result comes back to the loop. The
/// thread is left behind when nobody wants the result any more; it ends with its work, or with the process.
///
/// Threads  methods are for the loop's thread. The work's has every signal blocked; the loop's must not fork
///          while it is there, unless the work does nothing that a child of the fork could need (guard.h).
/// Loop     goes on while a result is waited for.
/// End      destroyed at any time, also from within `on_done`: then that is not called any more, and nothing
///          keeps the io_context.
template <class Result>
class BesideLoop {
 public:
  using Work = std::function<Result()>;
  using OnDone = std::function<void(const Result&)>;

  explicit BesideLoop(boost::asio::io_context& io) : io_(io) {}
  ~BesideLoop() { abandon(); }
  BesideLoop(const BesideLoop&) = delete;
  BesideLoop& operator=(const BesideLoop&) = delete;

  /// Calls `on_done` once with the result of `work`, which holds no references; never from inside itself. One
  /// at a time. Where no thread can be started, `without_thread` makes the result here, from the errno.
  void start(Work work, const std::function<Result(int error)>& without_thread, OnDone on_done) {
    abandon();
    door_ = std::make_shared<Door>(io_, std::move(on_done));
    std::thread thread;
    const int error =
        start_quietly(thread, [work = std::move(work), door = door_] { door->let_in(door, work()); });
    if (error != 0) return door_->let_in(door_, without_thread(error));
    thread.detach();
  }

  void abandon() {
    if (!door_) return;
    door_->close();
    door_->on_done = nullptr;
    door_.reset();
  }

 private:
  // The way back to the loop, which a thread that was left behind finds closed.
  struct Door {
    Door(boost::asio::io_context& io, OnDone done) : loop(io.get_executor()), on_done(std::move(done)) {}

    std::mutex mutex;
    std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>>
        loop;        // none: closed
    Gate gate;       // passed and closed under the mutex
    OnDone on_done;  // the loop's alone

    void close() {
      const std::lock_guard lock(mutex);
      gate.close();
      loop.reset();
    }
    void let_in(const std::shared_ptr<Door>& self, Result result) {
      const std::lock_guard lock(mutex);
      if (!loop) return;
      boost::asio::post(loop->get_executor(), gate.pass([self, result = std::move(result)] {
        self->close();
        std::exchange(self->on_done, nullptr)(result);
      }));
    }
  };

  boost::asio::io_context& io_;
  std::shared_ptr<Door> door_;
};

}  // namespace ddprun
