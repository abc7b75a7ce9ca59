#include "launcher/cleanup/job_cgroup.h"

#include "launcher/process/cgroup.h"
#include "rendezvous/base/read_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <utility>

namespace ddprun::launcher {
namespace {

// The mount point of the version 2 hierarchy: the fifth field of its line in mountinfo.
std::string find_mount() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5; ++i) fields >> field;
    return field;
  }
  return {};
}

bool is_marked(const std::string& path, const char* attribute) {
  std::array<char, 8> value{};
  return ::getxattr(path.c_str(), attribute, value.data(), value.size()) == 1 && value[0] == '1';
}

bool is_delegated(const std::string& path) {
  if (is_marked(path, "user.delegate") || is_marked(path, "trusted.delegate")) return true;
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && ::geteuid() != 0 && status.st_uid == ::geteuid();
}

}  // namespace

std::optional<JobCgroup> JobCgroup::create(const std::string& job_tag) {
  const std::string mount = find_mount();
  const std::string own = cgroup_of(::getpid(), "");
  if (mount.empty() || own.empty()) return std::nullopt;
  const std::string parent = mount + own;
  if (!is_delegated(parent)) return std::nullopt;
  const std::string path = parent + "/" + job_tag;
  if (::mkdir(path.c_str(), 0755) != 0) return std::nullopt;
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::access((path + "/cgroup.kill").c_str(), W_OK) != 0) {  // Linux before 5.14
    ::rmdir(path.c_str());
    return std::nullopt;
  }
  return JobCgroup(std::move(directory), path);
}

JobCgroup::~JobCgroup() {
  if (directory_) remove_cgroup(path_);
}

// The last part of the path is the job's tag, which no other group has.
bool is_in_cgroup(pid_t pid, const std::string& path) {
  std::string text = read_text(fmt::format("/proc/{}/cgroup", pid));
  std::replace(text.begin(), text.end(), '\n', '/');
  return text.find(path.substr(path.rfind('/')) + "/") != std::string::npos;
}

void kill_cgroup(const std::string& path) {
  const UniqueFd file(::open((path + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (file) [[maybe_unused]]
    const ssize_t written = ::write(file.get(), "1", 1);
}

void remove_cgroup(const std::string& path) { ::rmdir(path.c_str()); }

}  // namespace ddprun::launcher
