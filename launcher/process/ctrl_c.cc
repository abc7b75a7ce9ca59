#include "launcher/process/ctrl_c.h"

#include "launcher/text/text.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace ddprun::launcher {
namespace {

/// How a process gets to hear of Ctrl-C. What one has started that need not hear it of us may have to.
enum class Hears { kOfUs, kOfAnother, kIgnores, kNot };

std::string standard_input_of(pid_t pid) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/0", pid), unreadable).native();
}

/// timeout has this option before its program.
bool is_in_foreground(pid_t timeout) {
  const std::string command = read_text(fmt::format("/proc/{}/cmdline", timeout));
  const std::vector<std::string_view> words = split(command, '\0');
  for (std::size_t i = 1; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "--foreground" || words[i] == "-f") return true;
    if (words[i] == "-k" || words[i] == "-s" || words[i] == "--kill-after" || words[i] == "--signal") ++i;
  }
  return false;
}

/// Programs that hand on a signal which a process has sent, not a terminal. uv tells nobody where it has a terminal:
/// that has told a child in its group, it thinks.
bool tells_its_child(const std::string& program, const ProcessEntry& parent, const ProcessEntry& child) {
  if (program == "nsys" || program == "ncu" || program == "sudo") return true;
  if (program == "timeout") return is_in_foreground(parent.pid);
  if (program != "uv") return false;
  const std::string input = standard_input_of(parent.pid);
  return child.group != parent.group || (!input.starts_with("/dev/pts/") && !input.starts_with("/dev/tty"));
}

/// What multiprocessing, and joblib's loky, have begun as a program of its own: a worker of a pool, a data loader, and
/// who makes or tidies up after them.
bool is_of_multiprocessing(pid_t pid) {
  const std::string command = read_text(fmt::format("/proc/{}/cmdline", pid));
  const std::vector<std::string_view> words = split(command, '\0');
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--multiprocessing-fork") return true;
    if (words[i - 1] == "-c" && words[i].starts_with("from multiprocessing.")) return true;
    if (words[i - 1] == "-m" && words[i].starts_with("joblib.externals.loky.")) return true;
  }
  return false;
}

/// The number of the call that the first thread of a process is in, and its arguments: "61 0x1267 0x0 …", or "running".
std::vector<std::uint64_t> call_of(pid_t pid) {
  const std::string text = read_text(fmt::format("/proc/{}/syscall", pid));
  std::vector<std::uint64_t> numbers;
  for (std::string_view word : split(text, ' ')) {
    const int base = word.starts_with("0x") ? 16 : 10;
    if (base == 16) word.remove_prefix(2);
    std::uint64_t number = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), number, base).ec != std::errc{}) break;
    numbers.push_back(number);
  }
  return numbers;
}

/// The child whose end it waits for; -1: any child's. None: it does something else.
std::optional<pid_t> awaited_by(pid_t pid) {
  const std::vector<std::uint64_t> call = call_of(pid);
  if (call.size() < 3) return std::nullopt;
  // 0 and below -1: any of a group.
  if (call[0] == SYS_wait4) return static_cast<pid_t>(call[1]) > 0 ? static_cast<pid_t>(call[1]) : -1;
  if (call[0] == SYS_waitid) return call[1] == P_PID ? static_cast<pid_t>(call[2]) : -1;
  return std::nullopt;
}

bool is_helper(const ProcessEntry& process) { return process.is_copy || is_of_multiprocessing(process.pid); }

/// Rules for one leader, who has heard it.
class Rules {
 public:
  Rules(const std::vector<ProcessEntry>& processes, pid_t leader, int signal, bool spares_helpers)
      : processes_(processes), signal_(signal), spares_helpers_(spares_helpers) {
    ProcessEntry first;
    first.pid = first.group = leader;
    if (tells_its_group(first)) told_groups_.insert(leader);
  }

  Hears how_hears(const ProcessEntry& parent, const ProcessEntry& child, bool& is_spared) {
    const std::string program = name_of_program(parent.pid);
    const bool is_of_shell = only_starts_programs(parent.pid);
    if (child.group != parent.group && !is_of_shell) return Hears::kNot;
    if (ignores_signal(child.pid, signal_)) return Hears::kIgnores;
    const bool tells_group = tells_its_group(child), is_told = tells_its_child(program, parent, child);
    if (tells_group && is_told) told_groups_.insert(child.group);
    if (tells_group || is_told || told_groups_.contains(child.group)) return Hears::kOfAnother;
    is_spared = spares_helpers_ && !is_of_shell && is_helper(child) && !awaits_helper(parent.pid);
    return is_spared ? Hears::kNot : Hears::kOfUs;
  }

 private:
  /// Whoever waits for one of several waits for all in turn.
  [[nodiscard]] bool awaits_helper(pid_t parent) const {
    const std::optional<pid_t> awaited = awaited_by(parent);
    return awaited && std::any_of(processes_.begin(), processes_.end(), [&](const ProcessEntry& process) {
             return process.parent == parent &&
                    (*awaited == -1 || (*awaited == process.pid && is_helper(process)));
           });
  }

  const std::vector<ProcessEntry>& processes_;
  std::set<pid_t> told_groups_;  // by a timeout that is told
  int signal_;
  bool spares_helpers_;
};

/// What came from the leader, or from those whom it has left, and is in its session, from parent to child where
/// `is_to_pass` says so.
template <class IsToPass>
void walk(const std::vector<ProcessEntry>& processes, pid_t leader, IsToPass&& is_to_pass) {
  std::vector<ProcessEntry> found;
  const std::vector<pid_t> heads = heads_of_session(processes, leader);
  for (const ProcessEntry& process : processes) {
    const bool is_head = std::find(heads.begin(), heads.end(), process.pid) != heads.end();
    if (process.pid == leader || is_head) found.push_back(process);
  }
  for (std::size_t next = 0; next < found.size(); ++next) {
    const ProcessEntry parent = found[next];
    for (const ProcessEntry& process : processes) {
      if (process.parent == parent.pid && process.session == leader && !process.has_ended() &&
          is_to_pass(parent, process))
        found.push_back(process);
    }
  }
}

}  // namespace

CtrlC ctrl_c_behind(const std::vector<ProcessEntry>& processes, pid_t leader, int signal,
                    bool spares_helpers) {
  CtrlC ctrl_c;
  Rules rules(processes, leader, signal, spares_helpers);
  walk(processes, leader, [&](const ProcessEntry& parent, const ProcessEntry& child) {
    bool is_spared = false;
    const Hears hears = rules.how_hears(parent, child, is_spared);
    ctrl_c.spares = ctrl_c.spares || is_spared;
    if (hears == Hears::kOfUs) ctrl_c.hears.push_back(child);
    if (hears == Hears::kOfAnother) ctrl_c.told.push_back(child);
    return hears != Hears::kNot;
  });
  return ctrl_c;
}

bool tells_its_group(const ProcessEntry& process) {
  return process.group == process.pid && name_of_program(process.pid) == "timeout" &&
         !is_in_foreground(process.pid);
}

bool waits_for_a_child(pid_t pid) { return awaited_by(pid).has_value(); }

std::vector<ProcessEntry> programs_behind(const std::vector<ProcessEntry>& processes, pid_t leader) {
  std::vector<ProcessEntry> programs;
  walk(processes, leader, [&](const ProcessEntry& parent, const ProcessEntry& child) {
    const std::optional<pid_t> awaited = awaited_by(parent.pid);
    const bool is_awaited = awaited && (*awaited == -1 || *awaited == child.pid);
    if (!is_awaited && !only_starts_programs(parent.pid)) return false;
    const bool waits = only_starts_programs(child.pid) || waits_for_a_child(child.pid);
    if (child.state == 'T' || !waits) programs.push_back(child);
    return true;
  });
  return programs;
}

}  // namespace ddprun::launcher
