#pragma once

#include "rendezvous/base/gate.h"
#include "rendezvous/base/result.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/types.h>

#include <csignal>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

/// A signal as a value.
struct ReceivedSignal {
  int number = 0;
  pid_t sender = 0;  ///< 0 when the kernel sent it (Ctrl-C, a closed terminal)
  int value = 0;     ///< what came with it, as sigqueue sends it
};

/// Turns signals into calls on the io_context: they are blocked and read from a signalfd, so that no handler
/// ever runs. Signals this process was started to ignore are listened to as well, except SIGHUP and SIGTSTP:
/// `nohup` keeps its meaning.
///
/// For good  they stay blocked when this object is gone: what comes after the result of a job is settled must
///           not take its place.
class SignalSource {
 public:
  static Result<std::unique_ptr<SignalSource>> open(boost::asio::io_context& io,
                                                    const std::vector<int>& signals);
  ~SignalSource() { close(); }
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  /// From now on each signal calls `on_signal` from the io_context, until `close`.
  void start(std::function<void(const ReceivedSignal&)> on_signal);
  void close();

  /// Stops this process as SIGTSTP does by default, and returns when it has been continued; at once where the
  /// kernel stops nobody on SIGTSTP, because no shell could continue it (an orphaned OS process group).
  static void stop_this_process();

 private:
  SignalSource(boost::asio::io_context& io, int fd) : descriptor_(io, fd) {}
  void wait_readable();
  void read_all();

  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void(const ReceivedSignal&)> on_signal_;
  Gate gate_;
};

}  // namespace ddprun
