#include "worker/training/resume/output_folder.h"

#include "rendezvous/base/boot_id.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/host_name.h"
#include "worker/runtime/checkpoint/atomic_file.h"
#include <ddprun/progress.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPause{50};  ///< between two looks at a lock that another job has

/// A pod that takes the place of another has its host's name, too.
std::string boot_of_host() { return "boot " + boot_id(); }

std::string who_am_i() {
  return fmt::format("process {} on {}\n{}\n", ::getpid(), host_name(), boot_of_host());
}

std::string content_of(int fd) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(size > 0 ? size : 0)};
}

/// "process 4711 on node-a".
std::string name_of_holder(const std::string& content) { return content.substr(0, content.find('\n')); }

std::chrono::milliseconds patience_with(const std::string& holder, const FolderPatience& patience) {
  return holder.find("\n" + boot_of_host() + "\n") != std::string::npos ? patience.here : patience.elsewhere;
}

/// False: another job has it for longer than that. A file system without locks keeps nobody from training.
bool wait_for_lock(int fd, const std::string& what, const FolderPatience& patience) {
  const TimePoint begin = BootClock::now();
  bool has_told = false;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;
    const std::string holder = content_of(fd);
    const std::chrono::milliseconds most = patience_with(holder, patience);
    if (BootClock::now() - begin >= most) return false;
    // Who has just got it may not have written its name yet.
    if (!has_told && !holder.empty()) {
      has_told = true;
      patience.tell(fmt::format("waiting for {}, which {} holds, for up to {} s", what,
                                name_of_holder(holder),
                                std::chrono::ceil<std::chrono::seconds>(most).count()));
    }
    note_progress();
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

/// The name of the holder stays in the file when it ends; only the lock says whether it is still there.
/// `kind` is what the folder is called.
Result<UniqueFd> hold(const std::string& folder, std::string_view kind, const FolderPatience& patience) {
  const std::string path = fmt::format("{}/{}", folder, kLockFile);
  const std::string what = fmt::format("{} {}", kind, folder);
  UniqueFd fd;
  do {  // again where somebody has removed the folder and made it anew meanwhile: its lock is another one
    fd = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!fd) return os_error("cannot open " + path, errno);
    if (!wait_for_lock(fd.get(), what, patience)) {
      return Error(
          ErrorCode::kConfig,
          fmt::format("another job writes to {}: {}; end that one, or set /output_dir to another place", what,
                      name_of_holder(content_of(fd.get()))));
    }
  } while (!runtime::is_file_at(fd.get(), path));
  // The lock counts, and a full disk has no room for a name.
  const std::string me = who_am_i();
  if (::ftruncate(fd.get(), 0) == 0) static_cast<void>(::pwrite(fd.get(), me.data(), me.size(), 0));
  return fd;
}

/// Those of `folder` and the folders above it that are not there.
std::vector<fs::path> missing_folders(const std::string& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path path = fs::absolute(folder).lexically_normal();
       !fs::exists(path, error) && path.has_relative_path(); path = path.parent_path())
    missing.push_back(path);
  return missing;
}

/// The folder itself, wherever a link leads; none: there is no such folder, or nothing can be locked there.
Result<UniqueFd> hold_checkpoints(const std::string& output, const FolderPatience& patience) {
  const std::string named = output + "/checkpoints";
  static_cast<void>(runtime::create_folders(named));
  std::error_code error;
  const fs::path real = fs::canonical(named, error);
  if (error || fs::equivalent(real, output, error)) return UniqueFd();
  Result<UniqueFd> held = hold(real.string(), "checkpoint folder", patience);
  if (!held && held.error().code() == ErrorCode::kOs) return UniqueFd();
  return held;
}

/// Whether write_merged_job may have written it: with every section, in this layout.
bool is_merged_job(const std::string& text) {
  const auto job = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!job.is_object()) return text.empty();
  const auto sections = {"checkpoint", "data", "log", "model", "optimizer", "schedule", "train"};
  return std::all_of(sections.begin(), sections.end(),
                     [&](const char* name) { return job.contains(name); }) &&
         text == job.dump(2) + "\n";
}

/// None: it cannot be read.
std::optional<std::string> content_of(const std::string& path) {
  const std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream read;
  read << file.rdbuf();
  return read.str();
}

/// As <path>.old-N.
Result<void> set_aside(const std::string& path) {
  std::error_code error;
  int number = 1;
  while (fs::exists(fmt::format("{}.old-{}", path, number), error)) ++number;
  fs::rename(path, fmt::format("{}.old-{}", path, number), error);
  if (!error) return ok();
  return Error(ErrorCode::kOs, fmt::format("cannot move {} aside: {}", path, error.message()));
}

}  // namespace

Result<OutputFolder> OutputFolder::open(const std::string& path, const FolderPatience& patience) {
  const std::vector<fs::path> made = missing_folders(path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return Error(
        ErrorCode::kOs,
        fmt::format("cannot create output folder {}: {}; set /output_dir to a place that can be written",
                    path, error.message()));
  }
  // Checkpoints are to outlast a loss of power with all that leads to them, as far as the file system can.
  for (const fs::path& one : made) static_cast<void>(runtime::sync_folder(one.parent_path().string()));
  OutputFolder folder;
  folder.path_ = path;
  Result<UniqueFd> held = hold(path, "output folder", patience);
  if (!held) return held.error();
  folder.lock_ = std::move(*held);
  Result<UniqueFd> checkpoints = hold_checkpoints(path, patience);
  if (!checkpoints) return checkpoints.error();
  folder.lock_of_checkpoints_ = std::move(*checkpoints);
  return folder;
}

Result<bool> write_merged_job(const std::string& folder, const std::string& job_path,
                              const std::string& merged_job) {
  const std::string path = folder + "/job.json";
  std::error_code error;
  if (fs::equivalent(path, job_path, error)) return true;
  const std::string text = merged_job + "\n";
  if (fs::is_regular_file(path, error)) {
    const std::optional<std::string> there = content_of(path);
    if (there == text) return true;
    if (!there || !is_merged_job(*there)) return false;
    // It may have been changed by hand since.
    if (const Result<void> moved = set_aside(path); !moved) return moved.error();
  }
  // Whole or not at all: a part of one would pass for a person's.
  runtime::remove_leftovers_of(path);
  Result<runtime::AtomicFile> file = runtime::AtomicFile::create(path);
  if (!file) return file.error();
  if (Result<void> written = file->write(std::as_bytes(std::span(text))); !written) return written.error();
  if (Result<void> done = file->commit(); !done) return done.error();
  return true;
}

}  // namespace ddprun::training
