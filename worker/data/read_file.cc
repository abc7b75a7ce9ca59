#include "worker/data/read_file.h"

#include "rendezvous/base/open_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace ddprun::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// What happens where a file goes on after the bytes that are wanted.
enum class Beyond { kRefuse, kLeave };

constexpr std::size_t kPackedLimit = std::size_t{4} << 30;

Error too_long(const std::string& path, std::size_t limit) {
  return {ErrorCode::kCorrupt,
          fmt::format("{} is longer than the {} bytes such a file can have", path, limit)};
}

Result<Bytes> read_plain(const std::string& path, std::size_t limit) {
  const Result<OpenFile> file = open_regular_file(path);
  if (!file) return file.error();
  const std::size_t size = file->size;
  if (size > limit) return too_long(path, limit);
  Bytes bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file->fd.get(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("cannot read " + path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

bool is_gzip(const Bytes& bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

/// zlib's state, ended with the scope.
struct Inflater {
  Inflater() { ready = inflateInit2(&stream, 15 + 16) == Z_OK; }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream = {};
  bool ready = false;
};

/// The last four bytes of a gzip file: the inflated size modulo 2^32. A hint only.
std::size_t size_hint(const Bytes& packed, std::size_t limit) {
  if (packed.size() < 18) return 1024;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size |= static_cast<std::size_t>(packed[packed.size() - 4 + i]) << (8 * i);
  return std::clamp<std::size_t>(size, 1, std::min(limit, packed.size() * 1100));
}

Result<Bytes> inflate_up_to(const std::string& path, const Bytes& packed, std::size_t limit, Beyond beyond) {
  Inflater inflater;
  if (!inflater.ready)
    return Error(ErrorCode::kOs, fmt::format("cannot inflate {}: zlib is out of memory", path));
  z_stream& stream = inflater.stream;
  if (packed.size() > std::numeric_limits<uInt>::max()) return too_long(path, limit);
  stream.next_in = const_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  Bytes out(size_hint(packed, limit));
  std::size_t done = 0;
  while (true) {
    if (done == out.size()) {
      if (done >= limit && beyond == Beyond::kLeave) break;
      if (done >= limit) return too_long(path, limit);
      out.resize(std::min(limit, done * 2));
    }
    stream.next_out = out.data() + done;
    stream.avail_out =
        static_cast<uInt>(std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max()));
    const uInt room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (status == Z_STREAM_END) break;
    if (status == Z_OK && (stream.avail_in > 0 || stream.avail_out == 0)) continue;
    if (stream.avail_in == 0) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{} is a truncated gzip file: it ends after {} bytes, in the middle "
                               "of its data; fetch it again",
                               path, packed.size()));
    }
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} is a damaged gzip file: {} after {} of its {} bytes; fetch it again", path,
                             stream.msg != nullptr ? stream.msg : "it makes no sense", stream.total_in,
                             packed.size()));
  }
  out.resize(done);
  return out;
}

}  // namespace

Result<Bytes> read_file(const std::string& path, std::size_t limit) {
  Result<Bytes> bytes = read_plain(path, limit);
  if (!bytes || !is_gzip(*bytes)) return bytes;
  return inflate_up_to(path, *bytes, limit, Beyond::kRefuse);
}

Result<Bytes> read_start_of_file(const std::string& path, std::size_t most) {
  Result<Bytes> bytes = read_plain(path, kPackedLimit);
  if (!bytes) return bytes;
  if (is_gzip(*bytes)) return inflate_up_to(path, *bytes, most, Beyond::kLeave);
  if (bytes->size() > most) bytes->resize(most);
  return bytes;
}

}  // namespace ddprun::data
