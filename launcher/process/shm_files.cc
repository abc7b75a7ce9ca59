#include "launcher/process/shm_files.h"

#include "launcher/process/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <memory>

namespace ddprun::launcher {
namespace {

using std::chrono::system_clock;

constexpr std::string_view kRoot = "/dev/shm";

struct DirCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, DirCloser>;

template <class Stamp>
system_clock::time_point to_time_point(const Stamp& stamp) {
  return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(
      std::chrono::seconds(stamp.tv_sec) + std::chrono::nanoseconds(stamp.tv_nsec)));
}

bool names_one_of(std::string_view name, const std::set<pid_t>& pids) {
  const std::size_t digit = name.find_first_of("0123456789");
  if (digit == std::string_view::npos) return false;
  pid_t pid = 0;
  std::from_chars(name.data() + digit, name.data() + name.size(), pid);
  return pids.contains(pid);
}

}  // namespace

system_clock::time_point file_clock_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_time_point(now);
}

std::vector<ShmFile> list_shm_files() {
  std::vector<ShmFile> files;
  const Directory directory(::opendir(kRoot.data()));
  if (!directory) return files;
  while (const dirent* entry = ::readdir(directory.get())) {
    struct statx status {};
    constexpr unsigned kWanted = STATX_TYPE | STATX_UID | STATX_INO | STATX_BTIME;
    if (::statx(::dirfd(directory.get()), entry->d_name, AT_SYMLINK_NOFOLLOW, kWanted, &status) != 0)
      continue;
    if (!S_ISREG(status.stx_mode)) continue;
    ShmFile file{.name = entry->d_name, .inode = status.stx_ino, .owner = status.stx_uid, .born = {}};
    if ((status.stx_mask & STATX_BTIME) != 0) file.born = to_time_point(status.stx_btime);
    files.push_back(std::move(file));
  }
  return files;
}

// A line is "7f00-7f10 rw-s 00000000 00:19 42      /dev/shm/psm_1".
std::set<ino_t> mapped_shm_files(std::string_view maps) {
  std::set<ino_t> inodes;
  for (std::size_t at = maps.find(" /dev/shm/"); at != std::string_view::npos;
       at = maps.find(" /dev/shm/", at + 1)) {
    const std::size_t end = maps.find_last_not_of(' ', at);
    const std::size_t begin = maps.find_last_of(' ', end) + 1;
    ino_t inode = 0;
    std::from_chars(maps.data() + begin, maps.data() + end + 1, inode);
    if (inode != 0) inodes.insert(inode);
  }
  return inodes;
}

std::set<ino_t> held_shm_files(pid_t pid) {
  std::set<ino_t> inodes = mapped_shm_files(read_proc_file(fmt::format("/proc/{}/maps", pid)));
  const Directory directory(::opendir(fmt::format("/proc/{}/fd", pid).c_str()));
  if (!directory) return inodes;
  while (const dirent* entry = ::readdir(directory.get())) {
    std::array<char, 16> target{};
    const ssize_t length =
        ::readlinkat(::dirfd(directory.get()), entry->d_name, target.data(), target.size());
    if (length <= 0 ||
        !std::string_view(target.data(), static_cast<std::size_t>(length)).starts_with("/dev/shm/"))
      continue;
    struct stat status {};
    if (::fstatat(::dirfd(directory.get()), entry->d_name, &status, 0) == 0) inodes.insert(status.st_ino);
  }
  return inodes;
}

bool is_candidate(const ShmFile& file, const ShmEvidence& evidence) {
  return file.owner == evidence.user && file.born && *file.born >= evidence.started;
}

bool is_made_by(const ShmFile& file, const ShmEvidence& evidence) {
  if (file.name.find(evidence.job_tag) != std::string::npos) return true;
  return is_candidate(file, evidence) &&
         (evidence.held.contains(file.inode) || names_one_of(file.name, evidence.pids));
}

}  // namespace ddprun::launcher
