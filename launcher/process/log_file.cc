#include "launcher/process/log_file.h"

#include "launcher/process/tail_buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace ddprun::launcher {

Result<void> make_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return ok();
  if (errno != ENOENT) return os_error(fmt::format("cannot make the directory {}", path), errno);
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos || slash == 0)
    return os_error(fmt::format("cannot make the directory {}", path), errno);
  Result<void> parent = make_directories(path.substr(0, slash));
  if (!parent) return parent;
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return ok();
  return os_error(fmt::format("cannot make the directory {}", path), errno);
}

void set_aside(const std::string& path) {
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return;
  for (int number = 1; number < 1000; ++number) {
    const std::string other = fmt::format("{}.{}", path, number);
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, other.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno != EEXIST) return;
  }
}

Result<LogFile> LogFile::open(FileWriter& files, const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return os_error(fmt::format("cannot write {}", path), errno);
  return LogFile(files.add(std::move(fd), path, FileWriter::Gaps::kMarked), path);
}

std::string read_tail(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return {};
  // One byte more than wanted tells whether a line was cut.
  const auto size = static_cast<std::size_t>(status.st_size);
  std::string bytes(std::min(size, limit + 1), '\0');
  const ssize_t count =
      ::pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(size - bytes.size()));
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  TailBuffer tail(limit);
  tail.append(bytes);
  return tail.tail();
}

}  // namespace ddprun::launcher
