#include "worker/runtime/checkpoint/mapped_file.h"

#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace ddprun::runtime {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kOs;
    return Error(code, os_error("cannot open " + path, errno).message());
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return os_error("cannot stat " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error(ErrorCode::kConfig, fmt::format("{} is not a regular file", path));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(std::span<const std::byte>());
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path, errno);
  return MappedFile(std::span(static_cast<const std::byte*>(start), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ddprun::runtime
