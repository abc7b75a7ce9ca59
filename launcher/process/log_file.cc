#include "launcher/process/log_file.h"

#include "launcher/process/tail_buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ddprun::launcher {

Result<void> make_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return ok();
  if (errno != ENOENT) return os_error(fmt::format("cannot make the directory {}", path), errno);
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos || slash == 0)
    return os_error(fmt::format("cannot make the directory {}", path), errno);
  Result<void> parent = make_directories(path.substr(0, slash));
  if (!parent) return parent;
  if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return ok();
  return os_error(fmt::format("cannot make the directory {}", path), errno);
}

Result<LogFile> LogFile::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return os_error(fmt::format("cannot write {}", path), errno);
  return LogFile(std::move(fd), path);
}

std::size_t LogFile::write_some(std::string_view data) {
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t written = ::write(fd_.get(), data.data() + done, data.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

void LogFile::write(std::string_view data) {
  if (lost_here_ > 0) {
    const std::string mark =
        fmt::format("\n[ddprun: {} bytes are missing here: the disk was full]\n", lost_here_);
    const std::size_t marked = write_some(mark);
    if (marked < mark.size()) {
      lost_here_ += data.size();
      lost_total_ += data.size();
      return;
    }
    lost_here_ = 0;
  }
  const std::size_t done = write_some(data);
  if (done == data.size()) return;
  const int reason = errno;
  lost_here_ += data.size() - done;
  const bool is_first = lost_total_ == 0;
  lost_total_ += data.size() - done;
  if (is_first && on_trouble_) {
    on_trouble_(
        fmt::format("cannot write {}: {}; the job goes on, its output is still shown, and the gap will be "
                    "marked in the file",
                    path_, std::strerror(reason)));
  }
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
