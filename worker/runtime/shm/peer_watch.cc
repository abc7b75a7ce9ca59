#include "worker/runtime/shm/peer_watch.h"

#include <fmt/format.h>
#include <poll.h>
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

std::optional<std::uint64_t> start_time_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
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
  if (!start_time) return Error(ErrorCode::kOs, "cannot read /proc/self/stat; is /proc mounted?");
  return ProcessIdentity{.pid = pid, .start_time = *start_time};
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
  const bool is_gone = start_time_of(process.pid) != process.start_time;
  if (is_gone) pidfd.reset();
  return is_gone;
}

}  // namespace ddprun::runtime::shm
