#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>

namespace ddprun::launcher {

/// Hears, from inotify, that somebody makes files in /dev/shm: who made one can be seen only while its maker
/// lives.
///
/// Cost     at most ten calls a second, and one percent of a processor, however many files are made and
///          however long a call takes: data loaders make and remove thousands. The kernel takes some ten
///          milliseconds to end an inotify instance: a job that is over at once never has one.
/// Threads  none. Where inotify is not to be had (its limit of instances is reached), nothing is heard.
class ShmWatch {
 public:
  explicit ShmWatch(boost::asio::io_context& io);

  /// Calls `on_new_files` a tenth of a second from now, and from then on a moment after files were made.
  void start(std::function<void()> on_new_files);
  /// Nothing is pending on the io_context afterwards.
  void close();

 private:
  void listen();
  void wait();
  void settle();

  boost::asio::posix::stream_descriptor events_;
  boost::asio::steady_timer settle_;
  std::function<void()> on_new_files_;
  std::chrono::steady_clock::duration pause_;  // before the next call
};

}  // namespace ddprun::launcher
