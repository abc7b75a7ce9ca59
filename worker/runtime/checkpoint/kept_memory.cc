#include "worker/runtime/checkpoint/kept_memory.h"

#include "rendezvous/base/env_contract.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ddprun::runtime {

Result<KeptMemory> KeptMemory::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Error(ErrorCode::kNotFound, "there is no " + path);
  if (!fd) return os_error("cannot open " + path, errno);
  // The variable that names it may have outlived its launcher, and the path lead to something else by now.
  std::error_code error;
  const std::string target =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd.get()), error).string();
  if (!target.starts_with(fmt::format("/memfd:{}", kKeptMemoryName)))
    return Error(ErrorCode::kConfig, path + " is not memory that ddprun holds");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return os_error("cannot look at " + path, errno);
  KeptMemory memory(path, std::move(fd));
  if (Result<void> done = memory.map(static_cast<std::size_t>(status.st_size)); !done) return done.error();
  return memory;
}

KeptMemory::KeptMemory(KeptMemory&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

KeptMemory& KeptMemory::operator=(KeptMemory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

KeptMemory::~KeptMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<void> KeptMemory::map(std::size_t size) {
  if (size == 0) return ok();
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path_, errno);
  // Where the kernel gives such files huge pages if asked (shmem_enabled=advise); elsewhere it changes nothing.
  ::madvise(start, size, MADV_HUGEPAGE);
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = std::span(static_cast<std::byte*>(start), size);
  return ok();
}

Result<void> KeptMemory::reserve(std::size_t size) {
  if (size <= bytes_.size()) return ok();
  // Without it, memory that is not there would be found out by a signal, at the first byte that is written.
  int failed = 0;
  do {
    failed = ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return os_error(fmt::format("cannot have {} bytes of memory in {}", size, path_), errno);
  return map(size);
}

}  // namespace ddprun::runtime
