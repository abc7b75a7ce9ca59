#pragma once

#include "launcher/report/job_state.h"
#include "launcher/watch/gpu_use.h"
#include "launcher/why/facts/facts.h"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::watch {

/// What is read of a rank again and again. Counters grow while it lives.
struct RankSample {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;      ///< of the process that does the work; 0: it has ended
  std::string state;  ///< R, S, D, T, t, Z of its main thread
  double cpu_s = 0;
  std::uint64_t memory = 0;  ///< resident bytes
  std::optional<GpuUse> gpu{};
  why::Recorder recorder;  ///< the newest entries
  why::RankProgress progress{};
  std::optional<double> last_output_s;
  std::string last_line;  ///< of its logs, printable; empty: it has none
};

struct JobSample {
  std::string command;
  std::string host{};
  PublishedJob state;
  double at_s = 0;                ///< CLOCK_BOOTTIME
  std::int64_t taken_ns = 0;      ///< CLOCK_REALTIME
  std::vector<RankSample> ranks;  ///< of one node, by rank
  int left_out = 0;               ///< of another node: those that did not fit into its answer
};

/// Another node of the job: what it told, and before.
struct NodeSamples {
  JobSample now;
  std::optional<JobSample> before;
};

/// What is shown of a rank.
struct RankNumbers {
  /// "in all_reduce for 0.3 s", "evaluates", "computes", "sleeps", "stopped"
  std::string doing;
  std::optional<std::uint64_t> collectives;  ///< that it has begun; none without a flight recorder
  std::optional<double> collectives_per_s;   ///< since the sample before
  std::optional<double> steps_per_s;         ///< the same
  std::optional<double> cpu_share;           ///< of one CPU, since the sample before
  double in_collective_s = 0;                ///< for how long it has been in the oldest that has not ended
  double late_s = 0;                         ///< behind the first rank at collectives, on average
};

/// Whether the ranks of the state are this node's: of one that waits for its seat they are nobody's, or another's.
bool has_seat(const PublishedJob& state);

/// One row for each rank of `now`; `before` is an earlier sample of the same job, or null. Pure.
std::vector<RankNumbers> numbers_of(const JobSample& now, const JobSample* before);

}  // namespace ddprun::launcher::watch
