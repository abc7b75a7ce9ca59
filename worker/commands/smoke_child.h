#pragma once

#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::commands {

/// Thrown when this process was asked to end: what it started has ended by then.
struct Interrupted {
  int signal = 0;
};

/// How a program ended.
struct Ended {
  int exit_code = 0;  ///< 128 + signal where it was killed
  bool is_late = false;
  std::string out;  ///< the end of what it wrote, at most 1 MiB of each
  std::string err;
  double seconds = 0;
};

/// Where files appear: a folder that is watched while a program runs.
struct Watch {
  std::string folder;
  std::function<void(const std::string& name)> on_file;  ///< by rename, as checkpoints do
};

/// Runs programs one after the other so that nothing of them stays. Takes over SIGINT, SIGTERM, SIGHUP and SIGCHLD
/// of this process, which has one thread while it exists, and adopts what its programs orphan.
class SmokeChildren {
 public:
  explicit SmokeChildren(std::chrono::seconds limit);
  ~SmokeChildren();
  SmokeChildren(const SmokeChildren&) = delete;
  SmokeChildren& operator=(const SmokeChildren&) = delete;

  /// Runs argv[0] with these variables and stdin from /dev/null until it ends, or is killed at the limit.
  /// Errors  Interrupted; Exception kOs
  Ended run(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
            const std::optional<Watch>& watch = std::nullopt);

  /// What lives on below this process, after a moment: "ddprun-worker (4711)". All of it is killed.
  std::vector<std::string> end_leftovers();

 private:
  struct Pipes;
  void stop(pid_t child);
  void pump(Ended& ended, Pipes& pipes, pid_t child, const std::optional<Watch>& watch);

  std::chrono::seconds limit_;
  UniqueFd signals_;
  int interrupted_by_ = 0;
};

}  // namespace ddprun::commands
