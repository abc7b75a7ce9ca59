#include "launcher/why/look/system_calls.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

enum class Kind { kOther, kRead, kWrite, kSleep, kFutex, kChild, kPoll, kEpoll, kLock, kFlush, kDescriptor };

struct CallRow {
  int number;
  std::string_view name;
  Kind kind;
  int path = -1;
};

constexpr std::array kCalls{CallRow{SYS_read, "read", Kind::kRead},
                            CallRow{SYS_write, "write", Kind::kWrite},
                            CallRow{SYS_open, "open", Kind::kOther, 0},
                            CallRow{SYS_stat, "stat", Kind::kOther, 0},
                            CallRow{SYS_fstat, "fstat", Kind::kDescriptor},
                            CallRow{SYS_lstat, "lstat", Kind::kOther, 0},
                            CallRow{SYS_poll, "poll", Kind::kPoll},
                            CallRow{SYS_pread64, "pread", Kind::kRead},
                            CallRow{SYS_pwrite64, "pwrite", Kind::kWrite},
                            CallRow{SYS_readv, "readv", Kind::kRead},
                            CallRow{SYS_writev, "writev", Kind::kWrite},
                            CallRow{SYS_access, "access", Kind::kOther, 0},
                            CallRow{SYS_select, "select", Kind::kPoll},
                            CallRow{SYS_nanosleep, "nanosleep", Kind::kSleep},
                            CallRow{SYS_connect, "connect", Kind::kDescriptor},
                            CallRow{SYS_accept, "accept", Kind::kDescriptor},
                            CallRow{SYS_accept4, "accept", Kind::kDescriptor},
                            CallRow{SYS_sendto, "send", Kind::kWrite},
                            CallRow{SYS_sendmsg, "send", Kind::kWrite},
                            CallRow{SYS_recvfrom, "recv", Kind::kRead},
                            CallRow{SYS_recvmsg, "recv", Kind::kRead},
                            CallRow{SYS_wait4, "wait4", Kind::kChild},
                            CallRow{SYS_waitid, "waitid", Kind::kChild},
                            CallRow{SYS_vfork, "vfork", Kind::kChild},
                            CallRow{SYS_clone3, "clone3", Kind::kOther},
                            CallRow{SYS_fcntl, "fcntl", Kind::kLock},
                            CallRow{SYS_flock, "flock", Kind::kLock},
                            CallRow{SYS_fsync, "fsync", Kind::kFlush},
                            CallRow{SYS_fdatasync, "fdatasync", Kind::kFlush},
                            CallRow{SYS_syncfs, "syncfs", Kind::kFlush},
                            CallRow{SYS_sync_file_range, "sync_file_range", Kind::kFlush},
                            CallRow{SYS_close, "close", Kind::kFlush},
                            CallRow{SYS_getdents64, "getdents", Kind::kRead},
                            CallRow{SYS_ioctl, "ioctl", Kind::kDescriptor},
                            CallRow{SYS_pause, "pause", Kind::kOther},
                            CallRow{SYS_rt_sigsuspend, "sigsuspend", Kind::kOther},
                            CallRow{SYS_rt_sigtimedwait, "sigwait", Kind::kOther},
                            CallRow{SYS_futex, "futex", Kind::kFutex},
                            CallRow{SYS_restart_syscall, "restart_syscall", Kind::kOther},
                            CallRow{SYS_clock_nanosleep, "clock_nanosleep", Kind::kSleep},
                            CallRow{SYS_epoll_wait, "epoll_wait", Kind::kEpoll},
                            CallRow{SYS_epoll_pwait, "epoll_wait", Kind::kEpoll},
                            CallRow{SYS_pselect6, "select", Kind::kPoll},
                            CallRow{SYS_ppoll, "poll", Kind::kPoll},
                            CallRow{SYS_openat, "open", Kind::kOther, 1},
                            CallRow{SYS_newfstatat, "stat", Kind::kOther, 1},
                            CallRow{SYS_statx, "statx", Kind::kOther, 1},
                            CallRow{SYS_mkdir, "mkdir", Kind::kOther, 0},
                            CallRow{SYS_unlink, "unlink", Kind::kOther, 0},
                            CallRow{SYS_rename, "rename", Kind::kOther, 0},
                            CallRow{SYS_semtimedop, "semtimedop", Kind::kOther},
                            CallRow{SYS_msgrcv, "msgrcv", Kind::kOther}};

const CallRow* find_call(int number) {
  const auto found =
      std::find_if(kCalls.begin(), kCalls.end(), [&](const CallRow& row) { return row.number == number; });
  return found == kCalls.end() ? nullptr : &*found;
}

bool is_kind(int number, Kind kind) {
  const CallRow* const row = find_call(number);
  return row != nullptr && row->kind == kind;
}

}  // namespace

std::string name_of_call(int number) {
  if (number < 0) return {};
  const CallRow* const row = find_call(number);
  return row != nullptr ? std::string(row->name) : fmt::format("system call {}", number);
}

int call_behind_restart(int number, const std::string& wait_channel) {
  if (number != SYS_restart_syscall) return number;
  const auto waits_in = [&](std::string_view part) { return wait_channel.find(part) != std::string::npos; };
  if (waits_in("poll")) return SYS_poll;
  if (waits_in("nanosleep")) return SYS_clock_nanosleep;
  return waits_in("futex") ? SYS_futex : number;
}

int call_behind_select(const SystemCall& call) {
  const bool is_select = call.number == SYS_select || call.number == SYS_pselect6;
  return is_select && call.arguments[0] == 0 && call.arguments[4] != 0 ? SYS_clock_nanosleep : call.number;
}

bool takes_descriptor(int number) {
  return reads(number) || writes(number) || is_file_lock(number) || is_flush(number) ||
         is_kind(number, Kind::kDescriptor);
}

int path_argument(int number) {
  const CallRow* const row = find_call(number);
  return row != nullptr ? row->path : -1;
}

bool reads(int number) { return is_kind(number, Kind::kRead); }
bool writes(int number) { return is_kind(number, Kind::kWrite); }
bool is_sleep(int number) { return is_kind(number, Kind::kSleep); }
bool is_futex(int number) { return is_kind(number, Kind::kFutex); }
bool is_wait_for_child(int number) { return is_kind(number, Kind::kChild); }
int awaited_child(const SystemCall& call) {
  const bool is_one = call.number == SYS_wait4 || (call.number == SYS_waitid && call.arguments[0] == P_PID);
  const auto pid = static_cast<std::int32_t>(call.arguments[call.number == SYS_wait4 ? 0 : 1]);
  return is_one && pid > 0 ? pid : 0;
}
bool has_timeout(const SystemCall& call) {
  switch (call.number) {
    case SYS_poll:
      return static_cast<std::int32_t>(call.arguments[2]) >= 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return static_cast<std::int32_t>(call.arguments[3]) >= 0;
    case SYS_select:
    case SYS_pselect6:
      return call.arguments[4] != 0;
    case SYS_ppoll:
      return call.arguments[2] != 0;
    default:
      return false;
  }
}

bool is_poll(int number) { return is_kind(number, Kind::kPoll) || is_epoll(number); }
bool is_epoll(int number) { return is_kind(number, Kind::kEpoll); }
bool is_flush(int number) { return is_kind(number, Kind::kFlush); }
bool is_file_lock(int number) { return is_kind(number, Kind::kLock); }

}  // namespace ddprun::launcher::why
