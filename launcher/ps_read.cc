#include "launcher/process/process_table.h"
#include "launcher/ps.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ddprun::launcher {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The parts of /proc/<pid>/cmdline and environ.
std::vector<std::string> split_at_zeros(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

double uptime_seconds() { return std::strtod(read_text("/proc/uptime").c_str(), nullptr); }

/// Field 22 of stat: when the process started, in ticks since boot. Fields are counted behind the command's
/// ")".
double start_seconds(const std::string& stat) {
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  return std::strtod(stat.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t resident_bytes(const std::string& directory) {
  const std::string statm = read_text(directory + "/statm");
  const std::size_t space = statm.find(' ');
  if (space == std::string::npos) return 0;
  return std::strtoull(statm.c_str() + space, nullptr, 10) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
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
    processes.push_back({.pid = entry.pid,
                         .parent = entry.parent,
                         .state = entry.state,
                         .command = entry.command,
                         .age_s = std::max(0.0, uptime - start_seconds(read_text(directory + "/stat"))),
                         .memory = resident_bytes(directory),
                         .arguments = split_at_zeros(read_text(directory + "/cmdline")),
                         .environment = split_at_zeros(read_text(directory + "/environ"))});
  }
  return processes;
}

}  // namespace ddprun::launcher
