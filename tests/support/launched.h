#pragma once

#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::testing {

/// A directory below $TMPDIR or /tmp that is removed with everything in it.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Where shell workers wait for the test, or for each other: `read x < $path` returns after `open`, or after
/// somebody's `echo > $path`.
class Gate {
 public:
  Gate();

  [[nodiscard]] const std::string& path() const { return path_; }
  void open() const;

 private:
  TempDirectory directory_;
  std::string path_;
  UniqueFd both_ends_;  // so that neither readers nor writers wait for the other kind
};

std::string read_file(const std::string& path);

/// Calls `holds` until it does or the time is over; true when it held. For what no event tells: that
/// something is gone.
template <class Holds>
bool eventually(std::chrono::milliseconds limit, Holds holds);

/// Pids of the processes, zombies aside, whose command line or environment contains `token`.
std::vector<pid_t> processes_with(std::string_view token);

struct LaunchOptions {
  std::map<std::string, std::string> environment;  ///< on top of ours
  int stdin_fd = -1;                               ///< -1: /dev/null
  int stdout_fd = -1;                              ///< -1: captured
  int stderr_fd = -1;                              ///< -1: captured
  bool takes_terminal = false;  ///< make stdin the controlling terminal of a session of its own
  bool ignores_hangup = false;  ///< as under nohup
};

/// A program under test, usually ddprun, with its output captured and a TMPDIR of its own, which goes with it.
/// Destroyed while running: killed and reaped.
class Launched {
 public:
  explicit Launched(std::vector<std::string> argv, const LaunchOptions& options = {});
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  [[nodiscard]] const std::string& temporary_directory() const { return temporary_.path(); }

  /// Reads its stdout up to the next '\n'; fails the test after 20 s.
  std::string read_line();
  /// Waits until its stderr contains `text`; fails the test after 20 s.
  void wait_for_err(std::string_view text);
  /// Waits for its end, reading all output meanwhile; the exit code, or 128 + signal. Fails the test after
  /// `limit`.
  int wait(std::chrono::seconds limit = std::chrono::seconds(30));

  /// What it wrote, complete after `wait`, less what `read_line` took.
  [[nodiscard]] const std::string& out() const { return out_; }
  [[nodiscard]] const std::string& err() const { return err_; }

 private:
  bool pump(std::chrono::steady_clock::time_point until);

  TempDirectory temporary_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd out_fd_;
  UniqueFd err_fd_;
  std::string out_;
  std::string err_;
  std::optional<int> code_;
};

/// The ddprun under test ($DDPRUN_BIN) with arguments.
std::vector<std::string> ddprun_command(std::vector<std::string> arguments);

/// A test program's path: $DDPRUN_PROGRAMS/<name>.
std::string program(const std::string& name);

template <class Holds>
bool eventually(std::chrono::milliseconds limit, Holds holds) {
  const auto end = std::chrono::steady_clock::now() + limit;
  void nap();
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    nap();
  }
  return true;
}

}  // namespace ddprun::testing
