#include "rendezvous/store/poller.h"

#include "rendezvous/base/check.h"

#include <cerrno>
#include <utility>

namespace ddprun::store {
namespace {

epoll_event event_for(std::uint32_t interest, Poller::Handler& handler) {
  epoll_event event{};
  event.events = interest;
  event.data.ptr = &handler;
  return event;
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::open() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return os_error("epoll_create1", errno);
  return std::unique_ptr<Poller>(new Poller(std::move(fd)));
}

bool Poller::add(int fd, std::uint32_t interest, Handler& handler) {
  epoll_event event = event_for(interest, handler);
  return ::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Poller::modify(int fd, std::uint32_t interest, Handler& handler) {
  epoll_event event = event_for(interest, handler);
  DDPRUN_CHECK(::epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &event) == 0,
               "only sockets that were added are modified");
}

void Poller::remove(int fd, Handler& handler) {
  ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr);
  // An event of the batch at hand must not reach a handler that is gone.
  for (int i = 0; i < batch_size_; ++i) {
    epoll_event& event = batch_[static_cast<std::size_t>(i)];
    if (event.data.ptr == &handler) event.data.ptr = nullptr;
  }
}

int Poller::dispatch() {
  const int count = ::epoll_wait(fd_.get(), batch_.data(), kBatch, 0);
  batch_size_ = count < 0 ? 0 : count;
  for (int i = 0; i < batch_size_; ++i) {
    const epoll_event& event = batch_[static_cast<std::size_t>(i)];
    if (event.data.ptr != nullptr) static_cast<Handler*>(event.data.ptr)->on_ready(event.events);
  }
  return std::exchange(batch_size_, 0);
}

}  // namespace ddprun::store
