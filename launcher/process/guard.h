#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <set>
#include <string>

namespace ddprun::launcher {

/// A small process that outlives the launcher by a moment: when the launcher dies without a word (SIGKILL,
/// the out-of-memory killer), it ends everything that belongs to the job and removes the job's /dev/shm
/// segments.
///
/// Belongs   a process whose environment carries the job's tag, or whose session one of the running workers
/// began. Process   a fork of the launcher in a session of its own, with no descriptor but the one to the
/// launcher; no signal
///           but SIGKILL ends it. Its name is "job-guard", so that what kills ddprun by name does not kill
///           it.
/// Owner     `Guard` kills and reaps it; the owner starts another one when it finds it dead (`pid` was
/// reaped). Limits    it kills what it may: processes of another user are left to init.
class Guard {
 public:
  /// `sessions` are the pids of the workers that run now. Errors kOs.
  static Result<Guard> start(const std::string& job_tag, const std::set<pid_t>& sessions);

  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&& other) noexcept;
  ~Guard();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// For SpawnRequest: each worker announces itself before its program runs.
  [[nodiscard]] int socket() const { return socket_.get(); }
  /// A worker has ended and been reaped.
  void session_ended(pid_t worker);
  /// The process was reaped by its owner.
  void forget() { pid_ = 0; }

 private:
  Guard(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  void end();

  pid_t pid_ = 0;
  UniqueFd socket_;
};

}  // namespace ddprun::launcher
