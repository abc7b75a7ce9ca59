#include "launcher/process/cgroup.h"

#include "launcher/text/text.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <vector>

namespace ddprun::launcher {
namespace {

std::optional<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

}  // namespace

// A line is "4:cpu,cpuacct:/user.slice"; that of version 2 is "0::/user.slice".
std::string cgroup_of(pid_t pid, std::string_view controller) {
  const std::string text = read_text(fmt::format("/proc/{}/cgroup", pid));
  for (const std::string_view line : split_lines(text)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    const bool is_meant =
        controller.empty() ? names.empty() : has(fmt::format(",{},", names), fmt::format(",{},", controller));
    if (is_meant) return std::string(line.substr(second + 1));
  }
  return {};
}

std::string find_cgroup_file(pid_t pid, std::string_view controller, const std::string& file) {
  const std::string version_2 = cgroup_of(pid, "");
  const std::string version_1 = controller.empty() ? std::string() : cgroup_of(pid, controller);
  const std::string mount_1 = fmt::format("/sys/fs/cgroup/{}", controller);
  std::vector<std::string> folders{"/sys/fs/cgroup" + version_2, "/sys/fs/cgroup/unified" + version_2,
                                   "/sys/fs/cgroup"};
  // A controller that a hierarchy of version 1 has is not in that of version 2, whose root has files of its name.
  folders.insert(version_1.empty() ? folders.end() : folders.begin(), {mount_1 + version_1, mount_1});
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + file;
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return {};
}

std::optional<std::string> tightest_cgroup_line(const std::string& file) {
  std::optional<std::string> tightest;
  std::optional<std::uint64_t> least;
  for (std::filesystem::path group = cgroup_of(::getpid(), "");; group = group.parent_path()) {
    const std::string text = read_text(fmt::format("/sys/fs/cgroup{}/{}", group.string(), file));
    const std::optional<std::uint64_t> number = leading_number(text);
    if (number && (!least || *number < *least)) {
      least = number;
      tightest = std::string(trim_blanks(text));
    }
    if (group.empty() || group == group.parent_path()) return tightest;
  }
}

std::optional<std::uint64_t> cgroup_memory_limit() {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1}
                                       << 60;  // version 1 says "none" with a number near 2^63
  if (const auto line = tightest_cgroup_line("memory.max")) return leading_number(*line);
  const auto limit =
      leading_number(read_text(find_cgroup_file(::getpid(), "memory", "memory.limit_in_bytes")));
  return limit && *limit < kUnlimited ? limit : std::nullopt;
}

}  // namespace ddprun::launcher
