#include "launcher/process/child.h"

#include "launcher/process/pidfd.h"
#include "launcher/process/process_table.h"
#include "rendezvous/base/check.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

/// A debugger holds a child that has ended until it has looked at it: the pidfd is readable, and there is nothing to
/// reap yet. The kernel tells nobody when that changes.
constexpr Duration kHeldPause = std::chrono::milliseconds(100);

}  // namespace

ChildProcess::ChildProcess(boost::asio::io_context& io, SpawnedProcess process)
    : pid_(process.pid), pidfd_(io, process.pidfd.release()), again_(io) {
  // Not for any signal: from now on F_GETOWN tells whether this group is there, whoever has its number. It is
  // there now, because nobody has reaped the child.
  const int fd = pidfd_.native_handle();
  ::fcntl(fd, F_SETOWN, -pid_);
  if (::fcntl(fd, F_GETOWN) == -pid_) group_fd_ = fd;
}

ChildProcess::~ChildProcess() {
  if (is_running()) ::killpg(pid_, SIGKILL);
}

void ChildProcess::watch(std::function<void(ExitStatus)> on_exit) {
  on_exit_ = std::move(on_exit);
  wait_readable();
}

void ChildProcess::wait_readable() {
  pidfd_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    gate_.pass([this](boost::system::error_code) {
                      check_exit();
                      if (is_running()) again_.set_after(kHeldPause, [this] { wait_readable(); });
                    }));
}

void ChildProcess::check_exit() {
  if (!is_running()) return;
  siginfo_t info{};
  const auto fd = static_cast<id_t>(pidfd_.native_handle());
  int result = 0;
  do {
    result = ::waitid(kIdIsPidfd, fd, &info, WEXITED | WNOHANG);
  } while (result != 0 && errno == EINTR);
  DDPRUN_CHECK(result == 0, "only this object reaps its child");
  if (info.si_pid == 0) return;
  status_ = ExitStatus::from_waitid(info.si_code, info.si_status);
  if (on_exit_) std::exchange(on_exit_, nullptr)(*status_);
}

void ChildProcess::signal(int signal) const {
  if (is_running()) ::kill(pid_, signal);
}

bool ChildProcess::signal_group(int signal) const {
  if (!is_running() && !left_group()) return false;
  return ::killpg(pid_, signal) == 0;
}

void ChildProcess::signal_member(pid_t member, int signal) const {
  signal_process(member, signal, [this](const ProcessEntry& process) { return process.session == pid_; });
}

bool ChildProcess::left_group() const {
  if (is_running()) return false;
  if (group_fd_ >= 0 && ::fcntl(group_fd_, F_GETOWN) != -pid_) return false;
  // All there is where F_GETOWN names the dead as well.
  return ::kill(pid_, 0) != 0 && ::killpg(pid_, 0) == 0;
}

}  // namespace ddprun::launcher
