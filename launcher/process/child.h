#pragma once

#include "launcher/process/spawn.h"
#include "rendezvous/base/alarm.h"
#include "rendezvous/base/exit_status.h"
#include "rendezvous/base/gate.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <optional>

namespace ddprun::launcher {

/// A running child, leader of its own session and OS process group.
///
/// Owns      its pid and pidfd. Only this object reaps it, so its pid cannot be reused while signals may be
///           sent.
/// Lifetime  destroyed while running: the OS process group is sent SIGKILL, and nobody here reaps the child.
/// Threads   none: the io_context's one thread.
class ChildProcess {
 public:
  ChildProcess(boost::asio::io_context& io, SpawnedProcess process);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool is_running() const { return !status_.has_value(); }

  /// Calls `on_exit` once, from the io_context, when the child has ended and been reaped. Dropped with the
  /// object.
  void watch(std::function<void(ExitStatus)> on_exit);
  /// Reaps the child if it has ended and calls what `watch` was given, at once instead of from the
  /// io_context.
  void check_exit();

  /// To the child alone. No-op once it has ended.
  void signal(int signal) const;
  /// To every process of its OS process group, also when the child itself has ended. False: nobody is left in
  /// it.
  bool signal_group(int signal) const;
  /// To one process of the child's session, unless it is none of it any more.
  void signal_member(pid_t member, int signal) const;
  /// True if the child has ended and its OS process group still has members, ended ones that nobody has reaped
  /// included. Kernels since 2021 tell by the owner of the pidfd (F_SETOWN), so that a stranger's group which has got
  /// the number is not mistaken for it; older ones tell by the number, and one whose leader has ended may be.
  [[nodiscard]] bool left_group() const;

 private:
  void wait_readable();

  pid_t pid_;
  boost::asio::posix::stream_descriptor pidfd_;
  int group_fd_ = -1;  // the pidfd, where its owner is the group
  std::optional<ExitStatus> status_;
  std::function<void(ExitStatus)> on_exit_;
  Alarm again_;
  Gate gate_;
};

}  // namespace ddprun::launcher
