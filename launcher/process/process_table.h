#pragma once

#include "rendezvous/base/clock.h"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// What /proc says about one process.
struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';     ///< R, S, D, T, Z …
  std::string command;  ///< the program's short name
  TimePoint started{};  ///< to some ten milliseconds
  /// It frees what it has, which takes long where that is much, before it is a zombie.
  bool is_exiting = false;
  bool is_copy = false;  ///< it was forked, and has not begun a program of its own

  /// It does nothing any more; it is there until its parent has asked for its status.
  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// "pid 4712 (python3)"; the name is the process's own choice, and made printable.
std::string name_of(const ProcessEntry& process);

/// Parses /proc/<pid>/stat; its second field may hold any character. None when it is not such a text.
std::optional<ProcessEntry> parse_stat(std::string_view text);

/// The pids that a process has, by /proc/<pid>/status: its own in each pid namespace that it is in, ours first. Pure.
std::vector<pid_t> namespace_pids(std::string_view status);

/// One process; none when there is no such process.
std::optional<ProcessEntry> read_process(pid_t pid);

/// Every process of this machine (or container).
std::vector<ProcessEntry> read_processes();

/// Whether those are all that the machine has, by the numbers that its kernel calls them: not in a container.
bool sees_all_processes();

/// The living processes of a session whose leader is gone, less those whose parent is one of them. Empty: none lives,
/// or the number is a stranger's by now, who leads a session himself. Pure.
std::vector<pid_t> heads_of_session(const std::vector<ProcessEntry>& processes, pid_t leader);

/// The direct children of this process, zombies included.
std::vector<pid_t> read_own_children();

/// Whether the environment a process was started with, as /proc/<pid>/environ has it, names `tag` in
/// DDPRUN_JOB_TAG, alone or between colons (jobs may be nested). Pure.
bool environment_has_tag(std::string_view environment, std::string_view tag);

/// environment_has_tag for a process; false when its environment cannot be read (it is another user's, or
/// gone).
bool has_tag(pid_t pid, std::string_view tag);

/// A variable of the environment that a process was started with; empty: it has none, or that cannot be read.
std::string variable_of(pid_t pid, std::string_view name);

/// The file name of the program that it runs; empty: it is another user's, or gone.
std::string name_of_program(pid_t pid);

/// Whether that is a shell, or another program that starts programs and waits for them.
bool only_starts_programs(pid_t pid);

/// Whether a process ignores `signal`, as what a shell starts with `&` ignores SIGINT.
bool ignores_signal(pid_t pid, int signal);
/// Whether it has a handler for `signal`.
bool catches_signal(pid_t pid, int signal);

/// How far a process is on its way out.
enum class Leaving {
  kNotYet,
  kDumping,  ///< the kernel writes its core: SIGKILL alone cuts that short, and is then what it ended of
  kOver,  ///< it has ended, frees its memory, or has been sent SIGKILL: no signal has any part in its end any more
};
Leaving leaving(pid_t pid);

/// Sends `signal` to the process that has this number, if it is the one that is meant; true: sent. A pidfd is
/// opened before the process is looked at: what was looked at is then what is signalled, whoever has the
/// number by then.
bool signal_process(pid_t pid, int signal, const std::function<bool(const ProcessEntry&)>& is_meant);

/// "D (disk sleep) in nfs_wait_bit_killable", "S (sleeping), as user root, whose processes ddprun may not end":
/// for a process that does not end.
std::string describe_stuck(pid_t pid);

}  // namespace ddprun::launcher
