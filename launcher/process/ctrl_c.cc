#include "launcher/process/ctrl_c.h"

#include "launcher/text/text.h"
#include "rendezvous/base/read_text.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace ddprun::launcher {
namespace {

/// How a process gets to hear of Ctrl-C; who need not, and what it has started may.
enum class Hears { kOfUs, kNeedNot, kNot };

std::string standard_input_of(pid_t pid) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/0", pid), unreadable).native();
}

/// uv tells nobody where it has a terminal: that has told its child, it thinks.
bool tells_its_child(pid_t pid, const std::string& program) {
  return program == "nsys" || program == "ncu" ||
         (program == "uv" && !standard_input_of(pid).starts_with("/dev/pts/") &&
          !standard_input_of(pid).starts_with("/dev/tty"));
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

/// timeout tells its child and then all of its group, which the child is in: one that is told makes its program hear
/// Ctrl-C twice.
bool is_timeout(const std::string& program) { return program == "timeout"; }

Hears how_hears(pid_t leader, pid_t parent, const ProcessEntry& child, bool& is_spared) {
  const std::string program = name_of_program(parent);
  if (parent == leader && is_timeout(program)) return Hears::kNot;
  if (tells_its_child(parent, program) || is_timeout(name_of_program(child.pid))) return Hears::kNeedNot;
  is_spared = (child.is_copy || is_of_multiprocessing(child.pid)) && !waits_for_children(parent);
  return is_spared ? Hears::kNot : Hears::kOfUs;
}

/// Of a text of /proc/<pid>/syscall: "7 0x7ffc00 0x2 0xffffffff …", the number of the call that a thread is in and its
/// arguments, or "running".
bool is_wait_for_children(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() < 7) return false;
  const auto number = [](std::string_view word, int base) {
    std::uint64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value, base);
    return value;
  };
  const auto argument = [&](std::size_t index) { return number(words[index].substr(2), 16); };
  const auto is_endless = [&](std::size_t index) { return static_cast<std::int32_t>(argument(index)) < 0; };
  switch (number(words[0], 10)) {
    case SYS_wait4:
    case SYS_waitid:
      return true;
    case SYS_poll:
      return is_endless(3);
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return is_endless(4);
    case SYS_ppoll:
      return argument(3) == 0;
    case SYS_select:
    case SYS_pselect6:
      return argument(5) == 0;
    default:
      return false;
  }
}

/// What came from the leader and is in its session, from parent to child where `is_to_pass` says so.
template <class IsToPass>
void walk(const std::vector<ProcessEntry>& processes, pid_t leader, IsToPass&& is_to_pass) {
  std::vector<pid_t> found{leader};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const pid_t parent = found[next];
    for (const ProcessEntry& process : processes) {
      if (process.parent == parent && process.session == leader && !process.has_ended() &&
          is_to_pass(parent, process))
        found.push_back(process.pid);
    }
  }
}

}  // namespace

CtrlC ctrl_c_behind(const std::vector<ProcessEntry>& processes, pid_t leader) {
  CtrlC ctrl_c;
  walk(processes, leader, [&](pid_t parent, const ProcessEntry& child) {
    bool is_spared = false;
    const Hears hears = how_hears(leader, parent, child, is_spared);
    ctrl_c.spares = ctrl_c.spares || is_spared;
    if (hears == Hears::kOfUs) ctrl_c.hears.push_back(child.pid);
    return hears != Hears::kNot;
  });
  return ctrl_c;
}

bool waits_for_children(pid_t pid) {
  return only_starts_programs(pid) || is_wait_for_children(read_text(fmt::format("/proc/{}/syscall", pid)));
}

std::vector<pid_t> programs_behind(const std::vector<ProcessEntry>& processes, pid_t leader) {
  std::vector<pid_t> programs;
  walk(processes, leader, [&](pid_t parent, const ProcessEntry& child) {
    if (!waits_for_children(parent)) return false;
    if (!waits_for_children(child.pid)) programs.push_back(child.pid);
    return true;
  });
  return programs;
}

}  // namespace ddprun::launcher
