#include "launcher/process/process_table.h"

#include "launcher/process/pidfd.h"
#include "launcher/text/text.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/proc_stat.h"
#include "rendezvous/base/read_text.h"
#include "rendezvous/base/unique_fd.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>

namespace ddprun::launcher {
namespace {

// PF_EXITING and PF_FORKNOEXEC of include/linux/sched.h, in the field "flags".
constexpr std::int64_t kExiting = 0x4, kForkedWithoutExec = 0x40;

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// 0 where there is none.
std::int64_t whole_number(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "starttime", field 22: ticks of the clock that BootClock is.
TimePoint since_boot(std::string_view ticks) {
  const std::int64_t count = whole_number(ticks);
  static const std::int64_t a_second = ::sysconf(_SC_CLK_TCK);
  return TimePoint(Duration(count * (std::chrono::nanoseconds(std::chrono::seconds(1)).count() / a_second)));
}

// The next word of `text`, which loses it.
std::string_view consume_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
  text.remove_prefix(begin);
  const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::string_view state_name(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "disk sleep";
    case 'T':
      return "stopped";
    case 't':
      return "traced";
    case 'Z':
      return "zombie";
    default:
      return "unknown state";
  }
}

std::string status_of(pid_t pid) { return read_text(fmt::format("/proc/{}/status", pid)); }

// By number: a look-up of the name could hang.
std::string user_of(pid_t pid) {
  const std::string status = status_of(pid);
  if (value_of(status, "Uid").empty()) return "unknown";
  const std::uint64_t uid = number_of(status, "Uid");
  return uid == 0 ? "root" : std::to_string(uid);
}

// Whether a mask of signals in a text of /proc/<pid>/status has `signal`.
bool has_signal(std::string_view status, std::string_view mask, int signal) {
  return ((number_of(status, mask, 16) >> (signal - 1)) & 1U) != 0;
}

// A signal that ends a process is sent to each of its threads as SIGKILL, unless it writes a core first.
bool is_leaving_thread(std::string_view status, const ProcessEntry& entry) {
  return entry.has_ended() || entry.is_exiting || has_signal(status, "SigPnd", SIGKILL);
}

}  // namespace

std::string name_of(const ProcessEntry& process) {
  return fmt::format("pid {} ({})", process.pid, ddprun::printable(process.command, 64));
}

std::optional<ProcessEntry> parse_stat(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  std::string_view before = text.substr(0, open);
  const std::optional<int> pid = parse_number(consume_word(before));
  const std::string_view state = stat_field(text, 3);
  const std::optional<int> parent = parse_number(stat_field(text, 4));
  const std::optional<int> group = parse_number(stat_field(text, 5));
  const std::optional<int> session = parse_number(stat_field(text, 6));
  if (!pid || state.size() != 1 || !parent || !group || !session) return std::nullopt;
  const std::int64_t flags = whole_number(stat_field(text, 9));
  return ProcessEntry{*pid,
                      *parent,
                      *group,
                      *session,
                      state.front(),
                      std::string(text.substr(open + 1, close - open - 1)),
                      since_boot(stat_field(text, 22)),
                      (flags & kExiting) != 0,
                      (flags & kForkedWithoutExec) != 0};
}

// A line is "NSpid:\t4711\t9".
std::vector<pid_t> namespace_pids(std::string_view status) {
  std::vector<pid_t> pids;
  std::string_view line = value_of(status, "NSpid");
  while (const std::optional<pid_t> pid = parse_number(consume_word(line))) pids.push_back(*pid);
  return pids;
}

std::optional<ProcessEntry> read_process(pid_t pid) {
  return parse_stat(read_text(fmt::format("/proc/{}/stat", pid)));
}

// The first pid namespace of the machine always has this inode.
bool sees_all_processes() {
  std::array<char, 32> target{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", target.data(), target.size());
  return length > 0 &&
         std::string_view(target.data(), static_cast<std::size_t>(length)) == "pid:[4026531836]";
}

std::vector<ProcessEntry> read_processes() {
  std::vector<ProcessEntry> processes;
  for (const std::string& name : names_in("/proc")) {
    const std::optional<pid_t> pid = parse_number(name);
    std::optional<ProcessEntry> process = pid ? read_process(*pid) : std::nullopt;
    if (process) processes.push_back(std::move(*process));
  }
  return processes;
}

std::vector<pid_t> heads_of_session(const std::vector<ProcessEntry>& processes, pid_t leader) {
  std::map<pid_t, pid_t> parents;
  for (const ProcessEntry& process : processes) {
    if (process.pid == leader) return {};
    if (process.session == leader && !process.has_ended()) parents.emplace(process.pid, process.parent);
  }
  std::vector<pid_t> heads;
  for (const auto& [pid, parent] : parents) {
    if (!parents.contains(parent)) heads.push_back(pid);
  }
  return heads;
}

std::vector<pid_t> read_own_children() {
  std::vector<pid_t> children;
  const pid_t self = ::getpid();
  const std::string path = fmt::format("/proc/self/task/{}/children", self);
  if (::access(path.c_str(), R_OK) != 0) {  // a kernel without CONFIG_PROC_CHILDREN
    for (const ProcessEntry& process : read_processes()) {
      if (process.parent == self) children.push_back(process.pid);
    }
    return children;
  }
  const std::string text = read_text(path);
  std::string_view rest = text;
  while (const std::optional<int> pid = parse_number(consume_word(rest))) children.push_back(*pid);
  return children;
}

bool environment_has_tag(std::string_view environment, std::string_view tag) {
  const std::string wanted = fmt::format("{}=", env_name::kJobTag);
  const auto has_it = [&](std::string_view entry) {
    if (!entry.starts_with(wanted)) return false;
    const std::vector<std::string_view> tags = split(entry.substr(wanted.size()), ':');
    return std::find(tags.begin(), tags.end(), tag) != tags.end();
  };
  const std::vector<std::string_view> entries = split(environment, '\0');
  return !tag.empty() && std::any_of(entries.begin(), entries.end(), has_it);
}

bool has_tag(pid_t pid, std::string_view tag) {
  return environment_has_tag(read_text(fmt::format("/proc/{}/environ", pid)), tag);
}

std::string variable_of(pid_t pid, std::string_view name) {
  const std::string environment = read_text(fmt::format("/proc/{}/environ", pid));
  for (const std::string_view entry : split(environment, '\0')) {
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return std::string(entry.substr(name.size() + 1));
  }
  return {};
}

std::string name_of_program(pid_t pid) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), unreadable).filename().string();
}

bool only_starts_programs(pid_t pid) {
  static constexpr std::array<std::string_view, 20> kNames{
      "sh",   "bash",    "dash", "ash", "busybox", "zsh",  "ksh", "mksh", "fish", "strace",
      "time", "unshare", "make", "su",  "runuser", "sudo", "uv",  "nsys", "ncu",  "timeout"};
  return std::find(kNames.begin(), kNames.end(), name_of_program(pid)) != kNames.end();
}

bool ignores_signal(pid_t pid, int signal) { return has_signal(status_of(pid), "SigIgn", signal); }

bool catches_signal(pid_t pid, int signal) { return has_signal(status_of(pid), "SigCgt", signal); }

// Of the text of /proc/<pid>/status first: a process that leaves goes from what that tells to what its other file does.
Leaving leaving(pid_t pid) {
  const std::string status = status_of(pid);
  if (number_of(status, "CoreDumping") == 1) return Leaving::kDumping;
  if (has_signal(status, "ShdPnd", SIGKILL)) return Leaving::kOver;
  const std::optional<ProcessEntry> process = read_process(pid);
  if (!process) return Leaving::kOver;
  const bool is_alone = number_of(status, "Threads") <= 1;
  if (is_alone || !is_leaving_thread(status, *process))
    return is_leaving_thread(status, *process) ? Leaving::kOver : Leaving::kNotYet;
  // The thread that the program began with may end and let the others work.
  const std::string tasks = fmt::format("/proc/{}/task/", pid);
  const std::vector<std::string> threads = names_in(tasks);
  const bool are_all = std::all_of(threads.begin(), threads.end(), [&](const std::string& thread) {
    const std::string its_status = read_text(tasks + thread + "/status");
    const std::optional<ProcessEntry> entry = parse_stat(read_text(tasks + thread + "/stat"));
    return !entry || is_leaving_thread(its_status, *entry);
  });
  return are_all ? Leaving::kOver : Leaving::kNotYet;
}

bool signal_process(pid_t pid, int signal, const std::function<bool(const ProcessEntry&)>& is_meant) {
  const UniqueFd pidfd = open_pidfd(pid);
  if (!pidfd) return false;
  const std::optional<ProcessEntry> process = read_process(pid);
  return process && is_meant(*process) && signal_pidfd(pidfd, signal);
}

std::string describe_stuck(pid_t pid) {
  const std::optional<ProcessEntry> process = read_process(pid);
  if (!process) return "no longer there";
  const std::string where = read_text(fmt::format("/proc/{}/wchan", pid));
  std::string text = fmt::format("{} ({})", process->state, state_name(process->state));
  if (!where.empty() && where != "0") text += fmt::format(" in {}", where);
  if (::kill(pid, 0) != 0 && errno == EPERM) {
    text += fmt::format(", as user {}, whose processes ddprun may not end", user_of(pid));
  }
  return text;
}

}  // namespace ddprun::launcher
