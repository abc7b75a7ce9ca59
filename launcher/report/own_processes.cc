#include "launcher/report/own_processes.h"

#include "launcher/process/process_table.h"
#include "launcher/report/job_state.h"
#include "launcher/text/text.h"
#include "rendezvous/base/proc_stat.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ddprun::launcher {
namespace {

/// The parts of /proc/<pid>/cmdline, each of which a zero ends.
std::vector<std::string> arguments_in(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '\0');
  return {parts.begin(), parts.end() - (parts.back().empty() ? 1 : 0)};
}

double uptime_seconds() { return std::strtod(read_text("/proc/uptime").c_str(), nullptr); }

/// A field of stat that counts ticks, in seconds: 22 is when the process started, since boot.
double seconds_of_field(const std::string& stat, int number) {
  return seconds_of_ticks(stat_number(stat, number));
}

/// Its number in the innermost pid namespace.
pid_t own_pid(const std::string& directory, pid_t pid) {
  const std::vector<pid_t> pids = namespace_pids(read_text(directory + "/status"));
  return pids.empty() ? pid : pids.back();
}

bool is_own(const std::string& directory) {
  struct stat status {};
  return stat(directory.c_str(), &status) == 0 && status.st_uid == geteuid();
}

}  // namespace

std::vector<ProcessFacts> read_own_processes() {
  std::vector<ProcessFacts> processes;
  const double uptime = uptime_seconds();
  for (const ProcessEntry& entry : read_processes()) {
    const std::string directory = fmt::format("/proc/{}", entry.pid);
    if (!is_own(directory)) continue;
    const std::string stat = read_text(directory + "/stat");
    processes.push_back({.pid = entry.pid,
                         .own_pid = own_pid(directory, entry.pid),
                         .parent = entry.parent,
                         .state = entry.state,
                         .age_s = std::max(0.0, uptime - seconds_of_field(stat, 22)),
                         .cpu_s = seconds_of_field(stat, 14) + seconds_of_field(stat, 15),
                         .memory = resident_bytes(directory),
                         .arguments = arguments_in(read_text(directory + "/cmdline")),
                         .job_state = read_job_state(entry.pid)});
  }
  return processes;
}

}  // namespace ddprun::launcher
