#include "launcher/report/old_reports.h"

#include "rendezvous/base/unique_fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string_view>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr auto kKept = std::chrono::hours(7 * 24);
constexpr const char* kReport = "report.json";

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

/// Names in the folder, without "." and ".."; the descriptor stays the caller's.
std::vector<std::string> names_in(int fd) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(::fcntl(fd, F_DUPFD_CLOEXEC, 3)));
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

UniqueFd open_folder(int at, const std::string& name) {
  return UniqueFd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

void prune_old_reports(const std::string& temporary_directory, std::chrono::system_clock::time_point now) {
  const auto oldest = std::chrono::system_clock::to_time_t(now - kKept);
  const UniqueFd root = open_folder(AT_FDCWD, temporary_directory);
  if (!root) return;
  for (const std::string& name : names_in(root.get())) {
    if (name.rfind("ddprun_", 0) != 0) continue;
    const UniqueFd folder = open_folder(root.get(), name);
    struct stat status {};
    if (!folder || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    if (names_in(folder.get()) != std::vector<std::string>{kReport}) continue;
    if (::fstatat(folder.get(), kReport, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_mtime > oldest)
      continue;
    ::unlinkat(folder.get(), kReport, 0);
    ::unlinkat(root.get(), name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace ddprun::launcher
