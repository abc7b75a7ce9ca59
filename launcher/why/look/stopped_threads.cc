#include "launcher/why/look/stopped_threads.h"

#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/thread_state.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace ddprun::launcher::why {
namespace {

constexpr std::size_t kMostStopped = 128;
/// Until all threads have stopped, and for the last of them to be let go.
constexpr std::chrono::milliseconds kStopLimit{30}, kLetGoLimit{300};
constexpr std::chrono::nanoseconds kNap{2'000'000}, kShortNap{100'000};

/// epoll_pwait2(2), which kernel headers before 5.11 do not number.
constexpr long kEpollPwait2 = 441;

/// Calls that end with EINTR when their thread was stopped, also without a signal handler: signal(7), "Interruption of
/// system calls and library functions by stop signals". Those on sockets do where a time-out is set.
constexpr std::array<long, 18> kEndedByAStop{
    SYS_epoll_wait, SYS_epoll_pwait,   kEpollPwait2,      SYS_rt_sigtimedwait, SYS_semop,
    SYS_semtimedop, SYS_io_getevents,  SYS_accept,        SYS_accept4,         SYS_connect,
    SYS_recvfrom,   SYS_recvmsg,       SYS_recvmmsg,      SYS_sendto,          SYS_sendmsg,
    SYS_sendmmsg,   SYS_io_pgetevents, SYS_io_uring_enter};

/// These are, too, where their descriptor is a socket.
constexpr std::array kEndedOnASocket{SYS_read, SYS_write, SYS_readv, SYS_writev};

bool is_socket(pid_t tid, unsigned long descriptor) {
  std::error_code unreadable;
  const auto target =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", tid, descriptor), unreadable);
  return unreadable || target.native().starts_with("socket:");
}

/// Whether a stop does a thread no harm, at this moment.
bool bears_a_stop(pid_t tid) {
  // The number of the call comes first, then its arguments as 0x…; "running" of one that is in none.
  const std::string text = read_text(fmt::format("/proc/{}/syscall", tid));
  long call = -1;
  const char* const end = text.data() + text.size();
  const char* const after = std::from_chars(text.data(), end, call).ptr;
  if (std::find(kEndedByAStop.begin(), kEndedByAStop.end(), call) != kEndedByAStop.end()) return false;
  if (std::find(kEndedOnASocket.begin(), kEndedOnASocket.end(), call) == kEndedOnASocket.end()) return true;
  constexpr std::string_view kFirst = " 0x";
  unsigned long descriptor = 0;
  if (std::string_view(after, static_cast<std::size_t>(end - after)).starts_with(kFirst))
    std::from_chars(after + kFirst.size(), end, descriptor, 16);
  return !is_socket(tid, descriptor);
}

void nap(std::chrono::nanoseconds time) {
  const timespec left{0, time.count()};
  ::nanosleep(&left, nullptr);
}

bool has_tid(const std::vector<pid_t>& tids, pid_t tid) {
  return std::find(tids.begin(), tids.end(), tid) != tids.end();
}

}  // namespace

StoppedThreads::~StoppedThreads() {
  const SteadyTime deadline = std::chrono::steady_clock::now() + kLetGoLimit;
  while (true) {
    collect();
    release();
    if (seized_.empty() || !is_meant_ || std::chrono::steady_clock::now() >= deadline) return;
    ask();
    nap(kShortNap);
  }
}

bool StoppedThreads::await_calm(SteadyTime deadline) {
  while (true) {
    // Nobody who stops late, or is stopped by a signal, waits for us meanwhile.
    collect();
    release();
    const bool is_over = std::chrono::steady_clock::now() >= deadline;
    if (is_over || bears_a_stop(pid_)) {
      ProcessLook now = look_at_process(pid_);
      if (now.tracer == ::getpid()) now.tracer = 0;  // of a thread that was asked and stops late
      if (may_be_stopped(now)) return true;
      if (is_over) return false;
    }
    nap(kNap);
  }
}

void StoppedThreads::stop(const ProcessLook& look) {
  began_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < std::min(look.threads.size(), kMostStopped); ++i) {
    const pid_t tid = look.threads[i].tid;
    if (has_tid(seized_, tid) || !bears_a_stop(tid)) continue;
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0)
      seized_.push_back(tid);
    else
      error_ = errno;
  }
  // Whoever is seized keeps its number until this process ends; who is not asked to stop never notices.
  is_meant_ = start_of(pid_) == look.started;
  if (!is_meant_) return;
  ask();
  while (true) {
    collect();
    if (asked_.empty() || std::chrono::steady_clock::now() >= began_ + kStopLimit) return;
    nap(kShortNap);
  }
}

void StoppedThreads::release() {
  for (const Stop& stop : stopped_) {
    // A signal that arrived at this very moment is handed on; that of our own stop is none.
    ::ptrace(PTRACE_DETACH, stop.tid, nullptr, stop.signal);
    std::erase(seized_, stop.tid);
  }
  stopped_.clear();
}

std::vector<pid_t> StoppedThreads::tids() const {
  std::vector<pid_t> tids;
  for (const Stop& stop : stopped_) tids.push_back(stop.tid);
  std::stable_partition(tids.begin(), tids.end(), [this](pid_t tid) { return tid == pid_; });
  return tids;
}

void StoppedThreads::ask() {
  for (const pid_t tid : seized_) {
    // It may have gone on since.
    if (!has_tid(asked_, tid) && bears_a_stop(tid) &&
        ::access(fmt::format("/proc/{}/task/{}", pid_, tid).c_str(), F_OK) == 0 &&
        ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0)
      asked_.push_back(tid);
  }
}

// Also those that were not asked: a signal stops whoever is seized, and its end is seen by nobody else before.
void StoppedThreads::collect() {
  const std::vector<pid_t> all = seized_;
  for (const pid_t tid : all) {
    if (!is_stopped(tid) && has_stopped(tid)) std::erase(asked_, tid);
  }
}

bool StoppedThreads::is_stopped(pid_t tid) const {
  return std::any_of(stopped_.begin(), stopped_.end(), [tid](const Stop& stop) { return stop.tid == tid; });
}

bool StoppedThreads::has_stopped(pid_t tid) {
  int status = 0;
  const pid_t answer = ::waitpid(tid, &status, __WALL | WNOHANG);
  if (answer == 0) return false;
  const bool is_gone = answer < 0 || WIFEXITED(status) || WIFSIGNALED(status);
  if (is_gone) std::erase(seized_, tid);
  if (!is_gone && WIFSTOPPED(status)) stopped_.push_back({tid, (status >> 16) == 0 ? WSTOPSIG(status) : 0L});
  return true;
}

}  // namespace ddprun::launcher::why
