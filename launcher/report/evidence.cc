#include "launcher/report/evidence.h"

#include "launcher/process/cgroup.h"
#include "launcher/process/process_table.h"
#include "launcher/text/text.h"
#include "rendezvous/base/read_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace ddprun::launcher {
namespace {

/// Of version 2, or else of 1; empty: neither is there.
std::string memory_events_file() {
  const std::string path = find_cgroup_file(::getpid(), "memory", "memory.events");
  return path.empty() ? find_cgroup_file(::getpid(), "memory", "memory.oom_control") : path;
}

bool is_full(const std::string& directory, std::uint64_t& size) {
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0) return false;
  size = static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize;
  return disk.f_bavail == 0 || (disk.f_files > 0 && disk.f_favail == 0);
}

}  // namespace

std::string find_oom_kill(std::string_view kernel_log, pid_t pid) {
  const std::string mark = fmt::format("Killed process {} ", pid);
  const std::size_t at = kernel_log.rfind(mark);
  if (at == std::string_view::npos) return {};
  // A record reads "priority,sequence,microseconds,flags;text"; dmesg's lines "[seconds] text".
  const std::string_view line = kernel_log.substr(0, kernel_log.find('\n', at));
  const std::size_t begin = line.find_last_of("\n;", at);
  return shorten(line.substr(begin == std::string_view::npos ? 0 : begin + 1), 200);
}

std::string kernel_log_file() { return sees_all_processes() ? "/dev/kmsg" : ""; }

OomWatch::OomWatch(const std::string& log_file)
    : counter_file_(memory_events_file()),
      log_(log_file.empty() ? -1 : open(log_file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  begin_generation();
}

// By place and not by time: the clock of the records goes its own way.
void OomWatch::begin_generation() {
  kills_before_ = number_of(read_text(counter_file_), "oom_kill");
  log_so_far_.clear();
  if (log_) lseek(log_.get(), 0, SEEK_END);
}

bool OomWatch::has_killed() const {
  return !counter_file_.empty() && number_of(read_text(counter_file_), "oom_kill") > kills_before_;
}

std::string OomWatch::sentence_about(pid_t pid) {
  std::array<char, 8192> record{};
  while (log_) {
    const ssize_t size = read(log_.get(), record.data(), record.size());
    if (size <= 0 && !(size < 0 && errno == EPIPE)) break;  // EPIPE: records were overwritten, go on
    if (size > 0) log_so_far_.append(record.data(), static_cast<std::size_t>(size));
  }
  return find_oom_kill(log_so_far_, pid);
}

Evidence look_at_space(const std::vector<std::string>& job_directories) {
  Evidence evidence;
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    evidence.shm_size = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
    evidence.shm_free = static_cast<std::uint64_t>(shm.f_bavail) * shm.f_frsize;
  }
  for (const std::string& directory : job_directories) {
    std::uint64_t size = 0;
    if (evidence.full_disk.empty() && is_full(directory, size)) {
      evidence.full_disk = fmt::format("the file system of {} ({})", directory, format_bytes(size));
    }
  }
  return evidence;
}

Evidence gather_evidence(const ExitStatus& status, pid_t pid, OomWatch& oom, Evidence space) {
  Evidence evidence = std::move(space);
  if (status.is_killed() && status.signal() == SIGKILL) {
    evidence.oom_kernel_line = oom.sentence_about(pid);
    evidence.oom_kill_in_cgroup = oom.has_killed();
    evidence.memory_limit = cgroup_memory_limit().value_or(0);
    rlimit cpu{};  // workers have ours
    if (::getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_max != RLIM_INFINITY)
      evidence.cpu_limit = cpu.rlim_max;
  }
  evidence.core_pattern = trim_blanks(read_text("/proc/sys/kernel/core_pattern"));
  return evidence;
}

}  // namespace ddprun::launcher
