#include "worker/data/token_file.h"

#include "rendezvous/base/open_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace ddprun::data {

Result<Tokens> map_tokens(const std::string& path) {
  Result<OpenFile> opened = open_regular_file(path);
  if (!opened) return opened.error();
  const auto file = std::make_shared<const OpenFile>(std::move(*opened));
  const std::size_t size = file->size;
  if (size % 2 != 0) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is no file of 16-bit tokens: it has {} bytes, an odd number", path, size));
  }
  if (size == 0) return Tokens{.name = path};
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd.get(), 0);
  if (start == MAP_FAILED) return os_error("cannot map " + path, errno);
  const std::shared_ptr<const void> owner(start, [size](void* mapped) { ::munmap(mapped, size); });
  return Tokens{.values = {static_cast<const std::uint16_t*>(start), size / 2},
                .owner = owner,
                .name = path,
                .file = file};
}

Result<void> check_is_whole(const Tokens& tokens) {
  if (!tokens.file) return ok();
  struct stat status {};
  if (::fstat(tokens.file->fd.get(), &status) != 0) return os_error("cannot look at " + tokens.name, errno);
  if (static_cast<std::size_t>(status.st_size) >= tokens.file->size) return ok();
  return Error(
      ErrorCode::kCorrupt,
      fmt::format("{} was made shorter while it is in use, from {} to {} bytes; put new data beside it, "
                  "or in its place by a rename",
                  tokens.name, tokens.file->size, status.st_size));
}

}  // namespace ddprun::data
