#include "launcher/report/evidence.h"

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
#include <charconv>
#include <utility>

namespace ddprun::launcher {
namespace {

/// Our group in the hierarchy of `controller` ("" is version 2), as /proc/self/cgroup tells.
std::string cgroup_path(std::string_view controller) {
  const std::string text = read_text("/proc/self/cgroup");
  for (const std::string_view line : split_lines(text)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return std::string(line.substr(second + 1));
  }
  return {};
}

struct MemoryFiles {
  std::string events;
  std::string limit;
};

/// In a container the path of /proc/self/cgroup is often the host's while the group is mounted at the root.
MemoryFiles memory_files() {
  struct Candidate {
    std::string directory;
    const char* events;
    const char* limit;
  };
  const std::string v1 = "/sys/fs/cgroup/memory";
  const std::array<Candidate, 4> candidates{
      Candidate{"/sys/fs/cgroup" + cgroup_path(""), "memory.events", "memory.max"},
      Candidate{"/sys/fs/cgroup", "memory.events", "memory.max"},
      Candidate{v1 + cgroup_path("memory"), "memory.oom_control", "memory.limit_in_bytes"},
      Candidate{v1, "memory.oom_control", "memory.limit_in_bytes"},
  };
  for (const Candidate& candidate : candidates) {
    const std::string events = fmt::format("{}/{}", candidate.directory, candidate.events);
    if (access(events.c_str(), R_OK) == 0)
      return {events, fmt::format("{}/{}", candidate.directory, candidate.limit)};
  }
  return {};
}

std::uint64_t as_number(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::uint64_t memory_limit() {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1}
                                       << 60;  // version 1 says "none" with a number near 2^63
  const std::uint64_t limit = as_number(read_text(memory_files().limit));
  return limit < kUnlimited ? limit : 0;
}

bool is_full(const std::string& directory, std::uint64_t& size) {
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0) return false;
  size = static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize;
  return disk.f_bavail == 0 || (disk.f_files > 0 && disk.f_favail == 0);
}

}  // namespace

std::uint64_t counter_named(std::string_view text, std::string_view name) {
  for (const std::string_view line : split_lines(text)) {
    if (line.size() > name.size() && line.substr(0, name.size()) == name && line[name.size()] == ' ') {
      return as_number(line.substr(name.size() + 1));
    }
  }
  return 0;
}

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
    : counter_file_(memory_files().events),
      log_(log_file.empty() ? -1 : open(log_file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  begin_generation();
}

// By place and not by time: the clock of the records goes its own way.
void OomWatch::begin_generation() {
  kills_before_ = counter_named(read_text(counter_file_), "oom_kill");
  log_so_far_.clear();
  if (log_) lseek(log_.get(), 0, SEEK_END);
}

bool OomWatch::has_killed() const {
  return !counter_file_.empty() && counter_named(read_text(counter_file_), "oom_kill") > kills_before_;
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
    evidence.memory_limit = memory_limit();
    rlimit cpu{};  // workers have ours
    if (::getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_max != RLIM_INFINITY)
      evidence.cpu_limit = cpu.rlim_max;
  }
  evidence.core_pattern = read_text("/proc/sys/kernel/core_pattern");
  while (!evidence.core_pattern.empty() && evidence.core_pattern.back() == '\n')
    evidence.core_pattern.pop_back();
  return evidence;
}

}  // namespace ddprun::launcher
