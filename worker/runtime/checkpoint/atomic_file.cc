#include "worker/runtime/checkpoint/atomic_file.h"

#include <ddprun/progress.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kMark = ".ddprun-";
constexpr std::size_t kDigits = 8;
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr int kMostNames = 100;
constexpr std::time_t kLongUntouchedS = 24 * 3600;
constexpr std::size_t kPiece = std::size_t{8} << 20U;

struct Place {
  std::string folder;
  std::string name;
};

Place split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

std::string random_digits() {
  std::uint32_t number = 0;
  ::getrandom(&number, sizeof number, 0);
  return fmt::format("{:0{}x}", number, kDigits);
}

/// The name of the file that `name` is a temporary_beside() of; empty: it is none.
std::string_view final_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return {};
  name.remove_prefix(1);
  name.remove_suffix(std::min(kTemporarySuffix.size(), name.size()));
  if (name.size() <= kMark.size() + kDigits) return {};
  const std::string_view digits = name.substr(name.size() - kDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  name.remove_suffix(kDigits);
  if (!name.ends_with(kMark)) return {};
  name.remove_suffix(kMark.size());
  return name;
}

bool try_lock(int fd) {
  int done = 0;
  do {
    done = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

/// Between open() and flock() somebody may have taken the file for a leftover: then it is theirs, or gone.
bool is_lost(int fd, const std::string& path) {
  if (!try_lock(fd) && errno == EWOULDBLOCK) return true;
  return !is_file_at(fd, path);
}

/// Where there are no locks: whoever still writes has written since.
bool is_long_untouched(const struct stat& status) {
  return std::time(nullptr) - status.st_mtime > kLongUntouchedS;
}

void remove_if_left(const std::string& path) {
  // For writing, which a lock that a server of NFS holds asks for; not waiting for the other end of a FIFO.
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const bool is_nobodys = try_lock(fd.get()) || (errno != EWOULDBLOCK && is_long_untouched(status));
  if (is_nobodys) ::unlink(path.c_str());
}

/// `name`: of the file that they were to become; empty: whichever.
void remove_leftovers(const std::string& folder, std::string_view name) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string own = entry->path().filename().string();
    const std::string_view wanted = final_name(own);
    if (!wanted.empty() && (name.empty() || wanted == name)) remove_if_left(entry->path().string());
  }
}

}  // namespace

bool is_file_at(int fd, const std::string& path) {
  struct stat there {
  }, mine{};
  if (::stat(path.c_str(), &there) != 0) return errno != ENOENT;
  return ::fstat(fd, &mine) != 0 || (there.st_ino == mine.st_ino && there.st_dev == mine.st_dev);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      size_(other.size_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  std::string temporary;
  for (int i = 0; i < kMostNames; ++i) {
    temporary = temporary_beside(path);
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd && errno == EEXIST) continue;
    if (!fd) return os_error("cannot create " + temporary, errno);
    if (!is_lost(fd.get(), temporary)) return AtomicFile(path, std::move(temporary), std::move(fd));
  }
  return Error(ErrorCode::kOs, fmt::format("cannot create {}: {} names like it were taken or removed at once",
                                           temporary, kMostNames));
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // In pieces, each of which shows who looks at this rank that the disk takes them.
    const ssize_t written = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return os_error(fmt::format("cannot write {} after {} bytes", path_, size_), errno);
    note_progress();
    size_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok();
}

Result<void> AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) return os_error("cannot sync " + path_, errno);
  // The lock is held until nothing has the temporary name any more.
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return os_error("cannot rename a file to " + path_, errno);
  temporary_.clear();
  fd_.reset();
  return sync_folder(split(path_).folder);
}

Result<void> create_folders(const std::string& folder) {
  if (::access(folder.c_str(), F_OK) == 0) return ok();
  const Place place = split(folder);
  if (place.folder != folder) {
    if (Result<void> above = create_folders(place.folder); !above) return above;
  }
  if (place.name.empty()) return ok();  // "folder/"
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return os_error("cannot create folder " + folder, errno);
  return sync_folder(place.folder);
}

void sync_way_to(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(folder, error);
  while (!error && path.has_relative_path()) {
    path = path.parent_path();
    static_cast<void>(sync_folder(path.string()));
  }
}

Result<void> sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("cannot open folder " + folder, errno);
  // Some file systems cannot sync a folder and say EINVAL; the rename is done all the same.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return os_error("cannot sync folder " + folder, errno);
  return ok();
}

std::string temporary_beside(const std::string& path) {
  const Place place = split(path);
  return fmt::format("{}/.{}{}{}{}", place.folder, place.name, kMark, random_digits(), kTemporarySuffix);
}

void remove_leftovers_in(const std::string& folder) { remove_leftovers(folder, {}); }

void remove_leftovers_of(const std::string& path) {
  const Place place = split(path);
  remove_leftovers(place.folder, place.name);
}

}  // namespace ddprun::runtime
