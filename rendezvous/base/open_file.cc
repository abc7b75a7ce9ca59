#include "rendezvous/base/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddprun {

namespace {

Result<OpenFile> open_regular(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!fd) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kOs;
    return Error(code, os_error("cannot open " + path, errno).message());
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return os_error("cannot stat " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error(ErrorCode::kConfig, fmt::format("{} is not a regular file", path));
  return OpenFile{std::move(fd), static_cast<std::size_t>(info.st_size)};
}

// Less where the file has become shorter.
Result<std::string> load_from(const OpenFile& file, std::size_t at, const std::string& path) {
  std::string text(file.size - at, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        ::pread(file.fd.get(), text.data() + done, text.size() - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return os_error("cannot read " + path, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

}  // namespace

Result<OpenFile> open_regular_file(const std::string& path) { return open_regular(path, 0); }

Result<std::string> load_tail_of_foreign_file(const std::string& path, std::size_t most) {
  const Result<OpenFile> file = open_regular(path, O_NOFOLLOW);
  if (!file) return file.error();
  return load_from(*file, file->size - std::min(file->size, most), path);
}

Result<std::string> load_foreign_file(const std::string& path, std::size_t most) {
  const Result<OpenFile> file = open_regular(path, O_NOFOLLOW);
  if (!file) return file.error();
  if (file->size > most) {
    return Error(ErrorCode::kConfig,
                 fmt::format("{} has {} bytes; at most {} are read", path, file->size, most));
  }
  return load_from(*file, 0, path);
}

}  // namespace ddprun
