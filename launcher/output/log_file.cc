#include "launcher/output/log_file.h"

#include "launcher/output/tail_buffer.h"
#include "rendezvous/base/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

void remove_empty(const std::string& folder, int levels) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (levels > 0) {
    std::vector<std::string> inner;
    fs::directory_iterator entries(folder, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      std::error_code gone;
      if (fs::is_directory(entries->symlink_status(gone))) inner.push_back(entries->path().string());
    }
    for (const std::string& path : inner) remove_empty(path, levels - 1);
  }
  ::rmdir(folder.c_str());
}

}  // namespace

Result<void> make_directories(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  if (problem || (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST))
    return os_error(fmt::format("cannot make the directory {}", path), problem ? problem.value() : errno);
  return ok();
}

void remove_empty_log_directories(const std::string& log_root) {
  constexpr int kMostLevels = 2;  // attempt_N/local_rank
  remove_empty(log_root, kMostLevels);
}

void set_aside(const std::string& path) {
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return;
  for (int number = 1; number < 1000; ++number) {
    const std::string other = fmt::format("{}.{}", path, number);
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno != EEXIST) return;
  }
}

Result<LogFile> LogFile::open(FileWriters& files, const std::string& path) {
  // Not blocking: a FIFO there would wait for its reader. For workers that write to it themselves it blocks.
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd || ::fcntl(fd.get(), F_SETFL, O_APPEND) != 0)
    return os_error(fmt::format("cannot write {}", path), errno);
  return LogFile(files.add(std::move(fd), path, FileWriter::Gaps::kMarked), path);
}

std::string read_tail(const std::string& path, std::size_t limit) {
  // One byte more than wanted tells whether a line was cut.
  const Result<std::string> bytes = load_tail_of_foreign_file(path, limit + 1);
  if (!bytes) return {};
  TailBuffer tail(limit);
  tail.append(*bytes);
  return tail.tail();
}

}  // namespace ddprun::launcher
