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
namespace {

Result<KeptMapping> map_of(const std::string& path, int fd, std::size_t start, std::size_t size) {
  if (size == 0) return KeptMapping();
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(start));
  if (data == MAP_FAILED) return os_error("cannot map " + path, errno);
  return KeptMapping(std::span(static_cast<std::byte*>(data), size));
}

}  // namespace

KeptMapping::~KeptMapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

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
  return KeptMemory(path, std::move(fd));
}

Result<KeptMapping> KeptMemory::map(std::size_t start, std::size_t size) const {
  // Without it, memory that is not there would be found out by a signal, at the first byte that is written.
  int failed = 0;
  do {
    failed = ::fallocate(fd_.get(), 0, static_cast<off_t>(start), static_cast<off_t>(size));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return os_error(fmt::format("cannot have {} bytes of memory in {}", size, path_), errno);
  return map_of(path_, fd_.get(), start, size);
}

void KeptMemory::give_back_behind(std::size_t size) const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) <= size) return;
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size),
              status.st_size - static_cast<off_t>(size));
}

Result<KeptMapping> KeptMemory::map_all() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return os_error("cannot look at " + path_, errno);
  return map_of(path_, fd_.get(), 0, static_cast<std::size_t>(status.st_size));
}

}  // namespace ddprun::runtime
