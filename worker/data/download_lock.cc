#include "worker/data/download_lock.h"

#include "rendezvous/base/host_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <utility>

namespace ddprun::data {
namespace {

namespace fs = std::filesystem;

// The first line of the file is one of these.
constexpr std::string_view kHeld = "held";
constexpr std::string_view kFailed = "failed";
constexpr std::chrono::milliseconds kPause{50};  ///< between two looks at a lock that another one has
constexpr std::size_t kMostWords = 8192;

std::string content_of(int fd) {
  std::array<char, kMostWords> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(size > 0 ? size : 0)};
}

bool write_content(int fd, std::string_view text) {
  text = text.substr(0, kMostWords);
  return ::ftruncate(fd, 0) == 0 &&
         ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

/// "held\n<the process>\n<its parent>".
std::string who_am_i() {
  return fmt::format("{}\nprocess {} on {}\n{}", kHeld, ::getpid(), host_name(), ::getppid());
}

/// Whoever holds the lock, in words; none: a process of the same parent, or nobody says it.
std::optional<std::string> holder_in(const std::string& content) {
  const std::size_t first = content.find('\n');
  const std::size_t second = content.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos || !content.starts_with(kHeld))
    return std::nullopt;
  if (content.substr(second + 1) == std::to_string(::getppid())) return std::nullopt;
  return content.substr(first + 1, second - first - 1);
}

/// "failed\n<error code>\n<words>"; none: it says something else.
std::optional<Error> failure_in(const std::string& content) {
  const std::size_t first = content.find('\n');
  const std::size_t second = content.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos || !content.starts_with(kFailed))
    return std::nullopt;
  const bool is_os = content.substr(first + 1, second - first - 1) == to_string(ErrorCode::kOs);
  return Error(is_os ? ErrorCode::kOs : ErrorCode::kNotFound, content.substr(second + 1));
}

/// Whether `fd` is still what `path` names: its last holder may have removed it.
bool is_at(int fd, const std::string& path) {
  struct stat mine {};
  struct stat named {};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

void wait_a_moment(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, kPause, [] { return false; });
}

}  // namespace

Result<DownloadLock> DownloadLock::take(const std::string& folder, const std::stop_token& stop,
                                        const std::function<void(const std::string& holder)>& tell) {
  const std::string path = folder + "/.download.lock";
  bool has_waited = false;
  bool has_told = false;
  bool has_made_folder = false;
  while (!stop.stop_requested()) {
    std::error_code error;
    if (fs::create_directories(folder, error)) has_made_folder = true;
    if (error) return os_error("cannot make the data folder " + folder, error.value());
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    // One that fails removes the folder that it has made.
    if (!file && errno == ENOENT) continue;
    if (!file) return os_error("cannot write " + path, errno);
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && !stop.stop_requested()) {
      has_waited = true;
      const std::optional<std::string> holder = holder_in(content_of(file.get()));
      if (holder && !has_told) {
        tell(*holder);
        has_told = true;
      }
      wait_a_moment(stop);
    }
    if (stop.stop_requested()) break;
    // The file that was waited for has no name any more, and still says how it ended.
    std::optional<Error> failure;
    if (has_waited) failure = failure_in(content_of(file.get()));
    if (!failure && !is_at(file.get(), path)) continue;
    if (!failure && !write_content(file.get(), who_am_i())) return os_error("cannot write " + path, errno);
    DownloadLock lock(folder, std::move(file), std::move(failure));
    lock.has_made_folder_ = has_made_folder;
    return lock;
  }
  return Error(ErrorCode::kInternal, "the download was stopped");
}

void DownloadLock::leave_failure(const Error& failure) {
  write_content(file_.get(),
                fmt::format("{}\n{}\n{}", kFailed, to_string(failure.code()), failure.message()));
}

DownloadLock::~DownloadLock() {
  if (!file_) return;
  // Before it is let go: whoever gets it sees that it is the folder's no more.
  if (!failure_before_) ::unlink((folder_ + "/.download.lock").c_str());
  if (has_made_folder_) ::rmdir(folder_.c_str());  // where nothing has come into it
}

}  // namespace ddprun::data
