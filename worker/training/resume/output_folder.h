#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::training {

/// In each folder that a job holds, the file that is locked.
inline constexpr std::string_view kLockFile = ".lock";

/// How long a job waits for a folder that another one holds.
struct FolderPatience {
  /// That one is on this host: it may be ending, and write its last checkpoint before.
  std::chrono::milliseconds here{30'000};
  /// It is on another host, and may be gone with it: the server of a shared file system lets go of what a host had
  /// locked when it has not heard of it for a minute and a half.
  std::chrono::milliseconds elsewhere{120'000};
  /// Told once what is waited for, of whom, and how long at most.
  std::function<void(const std::string& words)> tell = [](const std::string& /*words*/) {};
};

/// The folder that a job writes into, held by one job at a time, as is the one of its checkpoints, wherever a link or a
/// mount leads: by a lock on a file in each that the kernel lets go of with the process, however that ends. Rank 0 has
/// them.
class OutputFolder {
 public:
  OutputFolder() = default;

  /// Makes both, and locks them. Where the one of the checkpoints cannot be made or written, whoever looks there or
  /// writes one is told.
  /// Blocks  while another job holds one of them, as long as `patience` says.
  /// Errors  kOs: it cannot be made or written; kConfig: another job writes there, with its host and process id.
  static Result<OutputFolder> open(const std::string& path, const FolderPatience& patience);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd lock_, lock_of_checkpoints_;
};

/// Writes the merged job file as job.json, unless that is the job file itself, `job_path`, or another one of a person.
/// Returns false where the latter stays in its place. One of an earlier start that says something else, or was changed
/// by hand since, is put aside as job.json.old-N.
/// Errors  kOs: it cannot be written.
Result<bool> write_merged_job(const std::string& folder, const std::string& job_path,
                              const std::string& merged_job);

}  // namespace ddprun::training
