#pragma once

#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <optional>
#include <string>

namespace ddprun::launcher {

/// A control group of the job's own, below that of this process, in which every worker is born. Nothing that
/// a worker starts can leave it, and one write ends it all.
///
/// Only where it is ours to make: cgroup version 2, and a group that was delegated to us (systemd marks
/// those; a group that belongs to our user is one as well). No controller is switched on, so limits and
/// accounting stay as they are.
class JobCgroup {
 public:
  /// None where there is no delegated group: nothing is lost, the guard finds processes by other marks.
  static std::optional<JobCgroup> create(const std::string& job_tag);

  JobCgroup(JobCgroup&&) noexcept = default;
  JobCgroup& operator=(JobCgroup&&) noexcept = default;
  /// Removes the group if it is empty.
  ~JobCgroup();

  /// For SpawnRequest.
  [[nodiscard]] int fd() const { return directory_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  JobCgroup(UniqueFd directory, std::string path)
      : directory_(std::move(directory)), path_(std::move(path)) {}

  UniqueFd directory_;
  std::string path_;
};

/// Whether a process is in the group at `path` or below.
bool is_in_cgroup(pid_t pid, const std::string& path);
/// SIGKILL to every process in the group at `path` and below, as one atomic act of the kernel.
void kill_cgroup(const std::string& path);
/// Removes the group at `path` if it is empty.
void remove_cgroup(const std::string& path);

}  // namespace ddprun::launcher
