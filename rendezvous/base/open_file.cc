#include "rendezvous/base/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace ddprun {

Result<OpenFile> open_regular_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kOs;
    return Error(code, os_error("cannot open " + path, errno).message());
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return os_error("cannot stat " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error(ErrorCode::kConfig, fmt::format("{} is not a regular file", path));
  return OpenFile{std::move(fd), static_cast<std::size_t>(info.st_size)};
}

}  // namespace ddprun
