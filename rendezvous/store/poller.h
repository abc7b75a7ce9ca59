#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <memory>

namespace ddprun::store {

/// Tells which of many sockets are ready. Level-triggered: what is not dealt with is told again.
///
/// Why not asio's own waits: those cost one system call more for every request, and a store spends its time
/// in little else. The poller's own descriptor is readable when any of its sockets is ready; asio waits for
/// that one.
class Poller {
 public:
  /// Somebody who owns a socket.
  class Handler {
   public:
    /// `events` are EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP. May add and remove sockets, its own too, but must
    /// not destroy itself.
    virtual void on_ready(std::uint32_t events) = 0;

   protected:
    ~Handler() = default;
  };

  static Result<std::unique_ptr<Poller>> open();

  [[nodiscard]] int fd() const { return fd_.get(); }

  /// False with `errno` when the kernel has no memory for it. The handler must stay until `remove`.
  bool add(int fd, std::uint32_t interest, Handler& handler);
  void modify(int fd, std::uint32_t interest, Handler& handler);
  void remove(int fd, Handler& handler);

  /// Calls the handlers of the sockets that are ready now, at most kBatch, and returns how many. Never
  /// blocks.
  int dispatch();

 private:
  static constexpr int kBatch = 256;

  explicit Poller(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::array<epoll_event, kBatch> batch_{};
  int batch_size_ = 0;  ///< events of the batch that is being dispatched
};

}  // namespace ddprun::store
