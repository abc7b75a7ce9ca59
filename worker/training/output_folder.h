#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <string>

namespace ddprun::training {

/// The folder that a job writes into, held by one job at a time: by a lock on a file in it that the kernel lets go
/// of with the process, however that ends. Rank 0 has it.
class OutputFolder {
 public:
  OutputFolder() = default;

  /// Makes the folder, locks it, and writes the merged job file there as job.json, unless that is the job file
  /// itself, `job_path`, which is a person's.
  /// Errors  kOs: it cannot be made or written; kConfig: another job writes there, with its host and process id.
  static Result<OutputFolder> open(const std::string& path, const std::string& job_path,
                                   const std::string& merged_job);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd lock_;
};

}  // namespace ddprun::training
