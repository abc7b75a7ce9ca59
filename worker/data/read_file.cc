#include "worker/data/read_file.h"

#include "rendezvous/base/open_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace ddprun::data {
namespace {

using Bytes = std::vector<std::uint8_t>;
using GzFile = std::unique_ptr<gzFile_s, int (*)(gzFile)>;

/// What happens where a file goes on after the bytes that are wanted.
enum class Beyond { kRefuse, kLeave };

constexpr std::array<std::uint8_t, 2> kGzipBegins{0x1f, 0x8b};
constexpr std::size_t kMostInOneCall = std::numeric_limits<int>::max();

template <std::size_t kSize>
std::array<std::uint8_t, kSize> bytes_at(const OpenFile& file, std::size_t offset) {
  std::array<std::uint8_t, kSize> bytes{};
  if (::pread(file.fd.get(), bytes.data(), kSize, static_cast<off_t>(offset)) != ssize_t{kSize}) return {};
  return bytes;
}

bool is_gzip(const OpenFile& file) { return bytes_at<2>(file, 0) == kGzipBegins; }

/// A gzip file ends with the size of what it holds, modulo 2^32. A hint only: it may lie.
std::size_t unpacked_size(const OpenFile& file) {
  if (file.size < 4) return 0;
  std::size_t size = 0;
  const auto last = bytes_at<4>(file, file.size - 4);
  for (std::size_t i = last.size(); i-- > 0;) size = size << 8 | last[i];
  return std::min(size, file.size * 1100);  // deflate packs no better
}

Error too_long(const std::string& path, std::size_t limit) {
  return {ErrorCode::kCorrupt,
          fmt::format("{} is longer than the {} bytes such a file can have", path, limit)};
}

/// Reads what is not packed as it is. Null: no memory.
GzFile opened(UniqueFd fd) {
  GzFile file(::gzdopen(fd.get(), "rb"), ::gzclose);
  if (file) std::ignore = fd.release();
  return file;
}

Result<void> check_end(gzFile file, const std::string& path, std::size_t size) {
  int number = Z_OK;
  const std::string_view words = ::gzerror(file, &number);  // "<fd:3>: …"
  switch (number) {
    case Z_OK:
    case Z_STREAM_END:
      return ok();
    case Z_ERRNO:
      return os_error("cannot read " + path, errno);
    case Z_MEM_ERROR:
      return os_error("cannot read " + path, ENOMEM);
    case Z_BUF_ERROR:
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is a truncated gzip file: it ends after {} bytes, in the "
                               "middle of its data; fetch it again",
                               path, size));
    default:
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is a damaged gzip file: {} in its {} bytes; fetch it again", path,
                               words.substr(words.find(": ") + 2), size));
  }
}

Result<Bytes> read_up_to(const std::string& path, std::size_t most, Beyond beyond) {
  Result<OpenFile> file = open_regular_file(path);
  if (!file) return file.error();
  const bool is_packed = is_gzip(*file);
  if (!is_packed && beyond == Beyond::kRefuse && file->size > most) return too_long(path, most);
  Bytes bytes(std::clamp<std::size_t>(is_packed ? unpacked_size(*file) : file->size, 1, most));
  const std::size_t size = file->size;
  const GzFile input = opened(std::move(file->fd));
  if (!input) return os_error("cannot read " + path, ENOMEM);
  std::size_t done = 0;
  while (true) {
    const auto room = static_cast<unsigned>(std::min(bytes.size() - done, kMostInOneCall));
    const int got = ::gzread(input.get(), bytes.data() + done, room);
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got < static_cast<int>(room)) break;
    if (done < bytes.size()) continue;
    if (done == most && beyond == Beyond::kLeave) return bytes;
    const int next = gzgetc(input.get());
    if (next < 0) break;
    if (done == most) return too_long(path, most);
    bytes.resize(std::min(most, done * 2));
    bytes[done++] = static_cast<std::uint8_t>(next);
  }
  if (Result<void> end = check_end(input.get(), path, size); !end) return end.error();
  bytes.resize(done);
  return bytes;
}

}  // namespace

Result<Bytes> read_file(const std::string& path, std::size_t limit) {
  return read_up_to(path, limit, Beyond::kRefuse);
}

Result<Bytes> read_start_of_file(const std::string& path, std::size_t most) {
  return read_up_to(path, most, Beyond::kLeave);
}

}  // namespace ddprun::data
