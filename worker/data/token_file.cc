#include "worker/data/token_file.h"

#include "rendezvous/base/open_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

namespace ddprun::data {

Result<Tokens> map_tokens(const std::string& path) {
  const Result<OpenFile> file = open_regular_file(path);
  if (!file) return file.error();
  const std::size_t size = file->size;
  if (size % 2 != 0) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is no file of 16-bit tokens: it has {} bytes, an odd number", path, size));
  }
  if (size == 0) return Tokens{.name = path};
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path, errno);
  const std::shared_ptr<const void> owner(start, [size](void* mapped) { ::munmap(mapped, size); });
  return Tokens{.values = {static_cast<const std::uint16_t*>(start), size / 2}, .owner = owner, .name = path};
}

}  // namespace ddprun::data
