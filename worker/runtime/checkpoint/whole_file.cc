#include "worker/runtime/checkpoint/whole_file.h"

#include "rendezvous/base/open_file.h"
#include <ddprun/progress.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

namespace ddprun::runtime {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{8} << 20U;

/// A block that cannot be read, and what ext4 and xfs say of a wrong checksum.
ErrorCode code_of_read(int errno_value) {
  if (errno_value == EIO || errno_value == EUCLEAN || errno_value == EBADMSG || errno_value == ENODATA)
    return ErrorCode::kCorrupt;
  return errno_value == ESTALE ? ErrorCode::kNotFound : ErrorCode::kOs;
}

}  // namespace

Result<WholeFile> WholeFile::read(const std::string& path) {
  const Result<OpenFile> file = open_regular_file(path);
  if (!file) return file.error();
  std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[file->size]);
  if (!bytes) return Error(ErrorCode::kOs, fmt::format("no memory for the {} bytes of {}", file->size, path));
  std::size_t done = 0;
  while (done < file->size) {
    // In pieces, each of which shows who looks at this rank that the disk gives them.
    const std::size_t most = std::min(file->size - done, kPieceBytes);
    const ssize_t count = ::read(file->fd.get(), bytes.get() + done, most);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Error(code_of_read(errno), fmt::format("cannot read {} after {} bytes: {}", path, done,
                                                    std::generic_category().message(errno)));
    }
    if (count == 0) break;
    note_progress();
    done += static_cast<std::size_t>(count);
  }
  return WholeFile(std::move(bytes), done);
}

}  // namespace ddprun::runtime
