#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// How a process ended: a value. The raw wait status never leaves exit_status.cc.
class ExitStatus {
 public:
  /// Ended by itself with `code` (0…255).
  static ExitStatus exited(int code) { return ExitStatus(Kind::kExited, code, false); }
  /// Ended by `signal`.
  static ExitStatus killed(int signal, bool core_dumped = false) {
    return ExitStatus(Kind::kKilled, signal, core_dumped);
  }
  /// From si_code and si_status as waitid(2) fills them.
  static ExitStatus from_waitid(int code, int value);

  [[nodiscard]] bool is_success() const { return kind_ == Kind::kExited && value_ == 0; }
  [[nodiscard]] bool is_killed() const { return kind_ == Kind::kKilled; }
  /// The exit code; -1 when killed.
  [[nodiscard]] int code() const { return is_killed() ? -1 : value_; }
  /// The signal that ended it; 0 when it exited.
  [[nodiscard]] int signal() const { return is_killed() ? value_ : 0; }
  [[nodiscard]] bool core_dumped() const { return core_dumped_; }
  /// What ddprun exits with on its behalf: the code, or 128 + signal.
  [[nodiscard]] int exit_code() const { return is_killed() ? 128 + value_ : value_; }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;

 private:
  enum class Kind { kExited, kKilled };
  ExitStatus(Kind kind, int value, bool core_dumped)
      : kind_(kind), value_(value), core_dumped_(core_dumped) {}

  Kind kind_;
  int value_;
  bool core_dumped_;
};

/// "exited with code 3", "was killed by SIGSEGV (core dumped)".
std::string to_string(const ExitStatus& status);

}  // namespace ddprun
