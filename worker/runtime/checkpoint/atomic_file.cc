#include "worker/runtime/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kSuffix = ".tmp";

struct Place {
  std::string folder;
  std::string name;
};

Place split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

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
  const Place place = split(path);
  std::string temporary = fmt::format("{}/.{}.{}{}", place.folder, place.name, ::getpid(), kSuffix);
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return os_error("cannot create " + temporary, errno);
  return AtomicFile(path, std::move(temporary), std::move(fd));
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return os_error(fmt::format("cannot write {} after {} bytes", path_, size_), errno);
    size_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok();
}

Result<void> AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) return os_error("cannot sync " + path_, errno);
  fd_.reset();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return os_error("cannot rename a file to " + path_, errno);
  temporary_.clear();
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

Result<void> sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("cannot open folder " + folder, errno);
  // Some file systems cannot sync a folder and say EINVAL; the rename is done all the same.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return os_error("cannot sync folder " + folder, errno);
  return ok();
}

bool is_leftover(const std::string& name) { return name.starts_with('.') && name.ends_with(kSuffix); }

void remove_leftovers_of(const std::string& path) {
  const Place place = split(path);
  const std::string beginning = "." + place.name + ".";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(place.folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (is_leftover(name) && name.starts_with(beginning)) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace ddprun::runtime
