#include "launcher/cleanup/shm_files.h"

#include "launcher/process/process_table.h"
#include "rendezvous/base/read_text.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>

namespace ddprun::launcher {
namespace {

using std::chrono::system_clock;

constexpr const char* kRoot = "/dev/shm";

struct DirCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, DirCloser>;

template <class Stamp>
system_clock::time_point to_time_point(const Stamp& stamp) {
  return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(
      std::chrono::seconds(stamp.tv_sec) + std::chrono::nanoseconds(stamp.tv_nsec)));
}

// Takes "_123" off the front of `text`.
template <class Number>
std::optional<Number> consume_field(std::string_view& text) {
  if (!text.starts_with('_')) return std::nullopt;
  Number number{};
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc{} || text[1] == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::set<pid_t> living_pids() {
  std::set<pid_t> pids;
  for (const ProcessEntry& process : read_processes()) {
    if (process.has_ended()) continue;
    pids.insert(process.pid);
    for (const pid_t pid : namespace_pids(read_text(fmt::format("/proc/{}/status", process.pid))))
      pids.insert(pid);
  }
  return pids;
}

struct Segment {
  std::string name;
  pid_t maker = 0;
};

std::vector<Segment> segments_of(const Directory& directory, const std::set<pid_t>& makers,
                                 system_clock::time_point job_started) {
  std::vector<Segment> segments;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::optional<pid_t> maker = torch_segment_maker(entry->d_name);
    if (!maker || !makers.contains(*maker)) continue;
    struct statx status {};
    constexpr unsigned kWanted = STATX_TYPE | STATX_UID | STATX_BTIME;
    if (::statx(::dirfd(directory.get()), entry->d_name, AT_SYMLINK_NOFOLLOW, kWanted, &status) != 0)
      continue;
    const bool is_ours = S_ISREG(status.stx_mode) && status.stx_uid == ::geteuid();
    const bool has_birth = (status.stx_mask & STATX_BTIME) != 0;
    if (is_ours && has_birth && to_time_point(status.stx_btime) >= job_started)
      segments.push_back({entry->d_name, *maker});
  }
  return segments;
}

}  // namespace

system_clock::time_point file_clock_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_time_point(now);
}

std::optional<pid_t> torch_segment_maker(std::string_view name) {
  constexpr std::string_view kPrefix = "torch";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::optional<pid_t> maker = consume_field<pid_t>(name);
  const bool is_whole =
      maker && consume_field<std::uint32_t>(name) && consume_field<std::uint64_t>(name) && name.empty();
  return is_whole ? maker : std::nullopt;
}

void remove_torch_segments(const std::set<pid_t>& makers, system_clock::time_point job_started) {
  const Directory directory(::opendir(kRoot));
  if (!directory) return;
  const std::vector<Segment> segments = segments_of(directory, makers, job_started);
  if (segments.empty() || !sees_all_processes()) return;
  const std::set<pid_t> living = living_pids();
  for (const Segment& segment : segments) {
    if (!living.contains(segment.maker)) ::unlinkat(::dirfd(directory.get()), segment.name.c_str(), 0);
  }
}

}  // namespace ddprun::launcher
