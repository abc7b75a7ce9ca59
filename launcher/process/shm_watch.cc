#include "launcher/process/shm_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace ddprun::launcher {
namespace {

// Long enough for the maker to have mapped its file, short enough to be seldom late.
constexpr auto kSettle = std::chrono::milliseconds(100);

}  // namespace

ShmWatch::ShmWatch(boost::asio::io_context& io) : events_(io), settle_(io), pause_(kSettle) {}

void ShmWatch::start(std::function<void()> on_new_files) {
  on_new_files_ = std::move(on_new_files);
  settle_.expires_after(kSettle);
  settle_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    listen();
    on_new_files_();
  });
}

void ShmWatch::listen() {
  const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0) return;
  events_.assign(fd);
  if (::inotify_add_watch(fd, "/dev/shm", IN_CREATE | IN_MOVED_TO) < 0) return close();
  wait();
}

void ShmWatch::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](boost::system::error_code error) {
                       if (!error) settle();
                     });
}

void ShmWatch::settle() {
  settle_.expires_after(pause_);
  settle_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    std::array<char, 16384> ignored;  // that there were files is all we need
    while (::read(events_.native_handle(), ignored.data(), ignored.size()) > 0) {
    }
    const auto begin = std::chrono::steady_clock::now();
    on_new_files_();
    pause_ = std::max<std::chrono::steady_clock::duration>(kSettle,
                                                           100 * (std::chrono::steady_clock::now() - begin));
    wait();
  });
}

void ShmWatch::close() {
  settle_.cancel();
  boost::system::error_code ignored;
  events_.close(ignored);
}

}  // namespace ddprun::launcher
