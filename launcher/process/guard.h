#pragma once

#include "launcher/process/guard_message.h"
#include "launcher/process/job_sweep.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <utility>

namespace ddprun::launcher {

/// A small process that outlives the launcher by a moment: when the launcher dies without a word (SIGKILL,
/// the out-of-memory killer), it ends everything that belongs to the job, as sweep_job says.
///
/// Belongs   a process whose environment or limits carry the job's tag, or whose session one of the running
/// workers began. Process   a fork of the launcher in a session of its own, with no descriptor but the one to
/// the launcher; no signal
///           but SIGKILL ends it. Its name is "job-guard", so that what kills ddprun by name does not kill
///           it.
/// Owner     `Guard` kills and reaps it; the owner starts another one when it finds it dead (`pid` was
/// reaped). Limits    it kills what it may: processes of another user are left to init.
class Guard {
 public:
  /// `marks.sessions` are the pids of the workers that run now. Errors kOs.
  static Result<Guard> start(const JobMarks& marks);

  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&& other) noexcept;
  ~Guard();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// For SpawnRequest: each worker announces itself before its program runs.
  [[nodiscard]] int socket() const { return socket_.get(); }
  void tell(const GuardMessage& message);
  /// The process was reaped by its owner.
  void forget() { pid_ = 0; }

 private:
  Guard(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  void end();

  pid_t pid_ = 0;
  UniqueFd socket_;
};

/// Two guards, so that whoever kills one of them and the launcher at the same moment still meets the other.
class GuardPair {
 public:
  static constexpr std::size_t kCount = 2;

  static Result<GuardPair> start(const JobMarks& marks);

  [[nodiscard]] bool has(pid_t pid) const;
  [[nodiscard]] std::array<pid_t, kCount> pids() const { return {guards_[0].pid(), guards_[1].pid()}; }
  /// For SpawnRequest.
  [[nodiscard]] std::array<int, kCount> sockets() const { return {guards_[0].socket(), guards_[1].socket()}; }
  void tell(const GuardMessage& message);
  /// The guard `pid` was killed and has been reaped: starts another in its place. Errors kOs.
  Result<void> replace(pid_t pid, const JobMarks& marks);

 private:
  explicit GuardPair(std::array<Guard, kCount> guards) : guards_(std::move(guards)) {}
  std::array<Guard, kCount> guards_;
};

}  // namespace ddprun::launcher
