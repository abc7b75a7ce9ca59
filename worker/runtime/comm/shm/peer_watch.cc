#include "worker/runtime/comm/shm/peer_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <sstream>

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
  const std::string text(buffer.data(), static_cast<std::size_t>(length));
  // The second field, the name in parentheses, may hold anything; what follows its last ')' is regular.
  const auto end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return std::nullopt;
  constexpr int kFieldsBetween = 18;  // from the state (3) to the start time (22), both excluded
  for (int i = 0; i < kFieldsBetween; ++i) fields >> field;
  std::uint64_t start_time = 0;
  if (!(fields >> start_time)) return std::nullopt;
  return start_time;
}

Result<ProcessIdentity> this_process() {
  const pid_t pid = ::getpid();
  const auto start_time = start_time_of(pid);
  if (!start_time) return start_time.error();
  if (!*start_time) return Error(ErrorCode::kOs, "cannot read /proc/self/stat; is /proc mounted?");
  return ProcessIdentity{.pid = pid, .start_time = **start_time};
}

Result<std::string> host_key() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  if (!std::getline(file, boot_id))
    return Error(ErrorCode::kOs, "cannot read /proc/sys/kernel/random/boot_id");
  std::array<char, PATH_MAX> link{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", link.data(), link.size());
  if (length < 0) return os_error("readlink /proc/self/ns/pid", errno);
  return boot_id + "/" + std::string(link.data(), static_cast<std::size_t>(length));
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
