#include "worker/runtime/comm/shm/peer_watch.h"

#include "rendezvous/base/boot_id.h"
#include "rendezvous/base/proc_stat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

namespace ddprun::runtime::shm {
namespace {

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by definition
}

bool has_ended(const UniqueFd& pidfd) {
  pollfd entry{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

Result<std::optional<std::uint64_t>> start_time_of(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer{};
  const ssize_t length = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  if (length < 0 && errno != ENOENT && errno != ESRCH) return os_error("cannot read " + path, errno);
  if (length <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
  const std::string_view state = stat_field(text, 3);
  if (state == "Z" || state == "X") return std::nullopt;
  constexpr int kStartTime = 22;
  if (stat_field(text, kStartTime).empty()) return std::nullopt;
  return stat_number(text, kStartTime);
}

Result<ProcessIdentity> this_process() {
  const pid_t pid = ::getpid();
  const auto start_time = start_time_of(pid);
  if (!start_time) return start_time.error();
  if (!*start_time) return Error(ErrorCode::kOs, "cannot read /proc/self/stat; is /proc mounted?");
  return ProcessIdentity{.pid = pid, .start_time = **start_time};
}

Result<std::string> host_key() {
  const std::string boot = boot_id();
  if (boot.empty()) return Error(ErrorCode::kOs, "cannot read /proc/sys/kernel/random/boot_id");
  std::array<char, PATH_MAX> link{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  if (length < 0) return os_error("readlink /proc/self/ns/pid", errno);
  return boot + "/" + std::string(link.data(), static_cast<std::size_t>(length));
}

bool PeerWatch::is_dead(int rank, const ProcessIdentity& process) {
  UniqueFd& pidfd = pidfds_[static_cast<std::size_t>(rank)];
  if (pidfd) return has_ended(pidfd);
  pidfd = open_pidfd(process.pid);
  // Asked after the open: if the pid is still its own now, the pidfd is too.
  const auto start_time = start_time_of(process.pid);
  if (!start_time) {
    // Nobody can tell a later process of this pid apart now; a wrong "it lives" is found out at the next
    // call.
    return ::kill(process.pid, 0) != 0 && errno == ESRCH;
  }
  const bool is_gone = *start_time != process.start_time;
  if (is_gone) pidfd.reset();
  return is_gone;
}

}  // namespace ddprun::runtime::shm
