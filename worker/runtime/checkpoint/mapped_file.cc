#include "worker/runtime/checkpoint/mapped_file.h"

#include "rendezvous/base/open_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace ddprun::runtime {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Result<OpenFile> file = open_regular_file(path);
  if (!file) return file.error();
  const std::size_t size = file->size;
  if (size == 0) return MappedFile(std::span<const std::byte>());
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path, errno);
  return MappedFile(std::span(static_cast<const std::byte*>(start), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ddprun::runtime
