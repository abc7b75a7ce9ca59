#pragma once

#include "launcher/watch/sample.h"
#include "launcher/why/look/rank_record.h"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

/// Seconds since a log file grew; none if there is no such file, or nothing in it.
std::optional<double> seconds_since_growth(const std::string& path);

/// Reads a rank again and again: some ten files of /proc and the end of what it has recorded, about a quarter of a
/// millisecond. It stops nothing, and keeps what it has found of the process.
class RankSampler {
 public:
  explicit RankSampler(pid_t worker) : worker_(worker) {}

  /// `log_dir` is where its stdout.log and stderr.log are; empty: nowhere.
  RankSample sample(const std::string& log_dir);

 private:
  void find_work();

  pid_t worker_;
  pid_t work_ = 0;  ///< the process that does the work
  std::uint64_t started_ = 0;
  int until_next_search_ = 0;
  std::optional<why::RankRecord> record_;
};

/// Reads a job of this host by what its launcher publishes.
class JobSampler {
 public:
  /// `launcher` is its pid, `command` what is shown of it.
  JobSampler(pid_t launcher, std::string command) : launcher_(launcher), command_(std::move(command)) {}

  /// Nullopt: the launcher is gone.
  std::optional<JobSample> sample();

 private:
  pid_t launcher_;
  std::string command_;
  std::map<pid_t, RankSampler> ranks_;  ///< by the worker's pid
};

}  // namespace ddprun::launcher::watch
