#include "worker/data/archive.h"

#include "rendezvous/base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

namespace ddprun::data {
namespace {

// POSIX ustar: a header of one block, and the bytes of the file filled up to whole blocks.
constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kNameSize = 100;
constexpr std::size_t kSizeAt = 124;
constexpr std::size_t kSizeSize = 12;
constexpr std::size_t kTypeAt = 156;
constexpr unsigned kReadAhead = 1U << 17;

using TarHeader = std::array<char, kTarBlock>;

/// Up to the first zero.
std::string_view text_of(const char* begin, std::size_t most) {
  return std::string_view(begin, most).substr(0, std::string_view(begin, most).find('\0'));
}

std::optional<std::uint64_t> size_of_member(const TarHeader& header) {
  std::string_view digits = text_of(header.data() + kSizeAt, kSizeSize);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return size;
}

/// One pass over an archive.
class Unpacking {
 public:
  Unpacking(const std::string& path, const std::vector<std::string>& members, const std::string& folder)
      : path_(path), members_(members), folder_(folder), file_(::gzopen(path.c_str(), "rbe"), ::gzclose) {}

  Result<void> run() {
    if (!file_) return os_error("cannot read " + path_, errno);
    ::gzbuffer(file_.get(), kReadAhead);
    if (Result<void> done = read_members(); !done) return done;
    for (const std::string& name : members_)
      if (!found_.contains(name)) return corrupt(fmt::format("it does not hold {}", name));
    for (const std::string& name : members_) {
      const std::string path = path_of(name);
      if (::rename(part_of(name).c_str(), path.c_str()) != 0) return os_error("cannot write " + path, errno);
    }
    return ok();
  }

 private:
  [[nodiscard]] Error corrupt(const std::string& why) const {
    return {ErrorCode::kCorrupt, fmt::format("archive {} is damaged: {}", path_, why)};
  }
  [[nodiscard]] std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::string part_of(const std::string& name) const { return path_of(name) + ".part"; }

  Result<void> read(char* bytes, std::size_t size) {
    const int got = ::gzread(file_.get(), bytes, static_cast<unsigned>(size));
    if (got == static_cast<int>(size)) return ok();
    int number = 0;
    const char* const words = ::gzerror(file_.get(), &number);
    if (number == Z_ERRNO) return os_error("cannot read " + path_, errno);
    return corrupt(got < 0 || number != Z_OK ? words : "it ends too early");
  }

  Result<void> read_members() {
    while (found_.size() < members_.size()) {
      TarHeader header{};
      if (Result<void> done = read(header.data(), header.size()); !done) return done;
      // Two blocks of zeros are the end.
      if (std::all_of(header.begin(), header.end(), [](char byte) { return byte == '\0'; })) return ok();
      const std::optional<std::uint64_t> size = size_of_member(header);
      if (!size) return corrupt("it is no tar file");
      std::string name(text_of(header.data(), kNameSize));
      name.erase(0, name.rfind('/') + 1);
      const bool is_file = header[kTypeAt] == '0' || header[kTypeAt] == '\0';
      const bool is_wanted = is_file && std::find(members_.begin(), members_.end(), name) != members_.end();
      if (Result<void> done = copy(is_wanted ? name : "", *size); !done) return done;
    }
    return ok();
  }

  /// Reads the content of a member, into its file where it has a name.
  Result<void> copy(const std::string& name, std::uint64_t size) {
    UniqueFd out;
    const std::string part = part_of(name);
    if (!name.empty()) {
      out = UniqueFd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!out) return os_error("cannot write " + part, errno);
    }
    std::uint64_t left = (size + kTarBlock - 1) / kTarBlock * kTarBlock;
    std::uint64_t wanted = size;
    std::array<char, std::size_t{64} * kTarBlock> bytes{};
    while (left > 0) {
      const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
      if (Result<void> done = read(bytes.data(), step); !done) return done;
      const auto kept = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, step));
      if (out) {
        if (Result<void> done = write(out.get(), part, {bytes.data(), kept}); !done) return done;
      }
      left -= step;
      wanted -= kept;
    }
    if (!name.empty()) found_.insert(name);
    return ok();
  }

  static Result<void> write(int out, const std::string& path, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(out, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return os_error("cannot write " + path, errno);
      bytes.remove_prefix(static_cast<std::size_t>(done));
    }
    return ok();
  }

  const std::string& path_;
  const std::vector<std::string>& members_;
  const std::string& folder_;
  std::unique_ptr<gzFile_s, decltype(&::gzclose)> file_;
  std::set<std::string> found_;
};

}  // namespace

Result<void> unpack_tar_gz(const std::string& path, const std::vector<std::string>& members,
                           const std::string& folder) {
  Result<void> done = Unpacking(path, members, folder).run();
  // What did not become whole is of no use to anybody.
  if (!done)
    for (const std::string& name : members) ::unlink((folder + "/" + name + ".part").c_str());
  return done;
}

}  // namespace ddprun::data
