#include "launcher/why/look/proc_look.h"

#include "launcher/process/cgroup.h"
#include "launcher/process/process_table.h"
#include "launcher/text/text.h"
#include "launcher/why/look/socket_diag.h"
#include "launcher/why/look/system_calls.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/proc_stat.h"
#include "rendezvous/base/read_text.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace ddprun::launcher::why {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostThreads = 256;

std::string name_at(const std::string& directory) {
  return std::string(trim_blanks(read_text(directory + "/comm")));
}

ThreadLook look_at_thread(const std::string& directory, int tid) {
  ThreadLook look{.tid = tid,
                  .name = name_at(directory),
                  .state = {},
                  .wait_channel = read_text(directory + "/wchan"),
                  .call = parse_system_call(read_text(directory + "/syscall"))};
  look.call.number = call_behind_restart(look.call.number, look.wait_channel);
  look.call.number = call_behind_select(look.call);
  const std::string stat = read_text(directory + "/stat");
  look.state = stat_field(stat, 3);
  look.major_faults = stat_number(stat, 12);
  std::istringstream schedule(read_text(directory + "/schedstat"));
  double ran_ns = 0;
  double queued_ns = 0;
  if (schedule >> ran_ns >> queued_ns) {
    look.cpu_s = ran_ns * 1e-9;
    look.queued_s = queued_ns * 1e-9;
  } else {
    look.cpu_s = seconds_of_ticks(stat_number(stat, 14) + stat_number(stat, 15));
  }
  return look;
}

std::string cgroup_file(pid_t pid, std::string_view controller, const std::string& file) {
  return read_text(find_cgroup_file(pid, controller, file));
}

double throttled_seconds(pid_t pid) {
  const std::string text = cgroup_file(pid, "cpu", "cpu.stat");
  const auto version_2 = static_cast<double>(number_of(text, "throttled_usec")) * 1e-6;
  const auto version_1 = static_cast<double>(number_of(text, "throttled_time")) * 1e-9;
  return std::max(version_1, version_2);
}

bool is_frozen(pid_t pid) {
  if (number_of(cgroup_file(pid, "", "cgroup.events"), "frozen") == 1) return true;
  return cgroup_file(pid, "freezer", "freezer.state").starts_with("FROZEN");
}

/// The bracketed number of "socket:[4711]"; empty: it is something else.
std::string inode_of(const std::string& target, std::string_view kind) {
  if (!target.starts_with(kind)) return {};
  const std::size_t begin = target.find('[');
  const std::size_t end = target.find(']');
  return begin == std::string::npos || end == std::string::npos ? std::string()
                                                                : target.substr(begin + 1, end - begin - 1);
}

std::string describe_process(pid_t pid) {
  return fmt::format("pid {} ({})", pid, printable(name_at(fmt::format("/proc/{}", pid))));
}

/// Who else has the pipe open, and whether for the other direction.
std::string other_end_of_pipe(pid_t pid, const std::string& target, bool they_write) {
  for (const ProcessEntry& process : read_processes()) {
    if (process.pid == pid) continue;
    for (const auto& [fd, theirs] : open_files(process.pid)) {
      if (theirs != target) continue;
      const std::uint64_t flags =
          number_of(read_text(fmt::format("/proc/{}/fdinfo/{}", process.pid, fd)), "flags", 8);
      const bool writes = (flags & 3) != 0;
      if (writes == they_write || (flags & 3) == 2) return describe_process(process.pid);
    }
  }
  return {};
}

/// What of /proc/<pid>/mountinfo says where a file lies.
void find_mount(pid_t pid, Object& object, const std::string& mount_id) {
  std::istringstream lines(read_text(fmt::format("/proc/{}/mountinfo", pid)));
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, point, type, source;
    words >> id >> parent >> device >> root >> point;
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream(line.substr(dash + 3)) >> type >> source;
    const bool is_below =
        mount_id.empty() && point.size() >= longest && object.path.starts_with(point) &&
        (point == "/" || object.path.size() == point.size() || object.path[point.size()] == '/');
    if (id != mount_id && !is_below) continue;
    longest = point.size();
    object.mount = type;
    object.source = source;
    object.device = device;
    if (id == mount_id) return;
  }
}

/// "0100007F:1F90" is "127.0.0.1:8080".
std::string address_of(const std::string& hex) {
  const std::size_t colon = hex.find(':');
  if (colon == std::string::npos) return hex;
  std::array<char, INET6_ADDRSTRLEN> text{};
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = std::min<std::size_t>(colon / 8, words.size());
  for (std::size_t i = 0; i < count; ++i)
    words[i] = static_cast<std::uint32_t>(std::strtoul(hex.substr(i * 8, 8).c_str(), nullptr, 16));
  const bool is_mapped = count == 4 && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  if (is_mapped) words[0] = words[3];
  const bool is_v6 = count == 4 && !is_mapped;
  ::inet_ntop(is_v6 ? AF_INET6 : AF_INET, words.data(), text.data(), text.size());
  const unsigned long port = std::strtoul(hex.c_str() + colon + 1, nullptr, 16);
  return is_v6 ? fmt::format("[{}]:{}", text.data(), port) : fmt::format("{}:{}", text.data(), port);
}

}  // namespace

double boot_time() { return std::chrono::duration<double>(BootClock::now().time_since_epoch()).count(); }

std::uint64_t start_of(pid_t pid) { return stat_number(read_text(fmt::format("/proc/{}/stat", pid)), 22); }

SystemCall parse_system_call(const std::string& text) {
  SystemCall call;
  std::istringstream words(text);
  std::string word;
  if (!(words >> word) || word.empty() || word[0] < '0' || word[0] > '9') return call;
  call.number = std::atoi(word.c_str());
  for (std::uint64_t& argument : call.arguments) {
    if (words >> word) argument = std::strtoull(word.c_str(), nullptr, 16);
  }
  return call;
}

ProcessLook look_at_process(pid_t pid) {
  const std::string directory = fmt::format("/proc/{}", pid);
  ProcessLook look;
  look.at_s = boot_time();
  look.threads.push_back(look_at_thread(fmt::format("{}/task/{}", directory, pid), pid));
  for (const std::string& name : names_in(directory + "/task")) {
    const int tid = std::atoi(name.c_str());
    if (tid != pid && look.threads.size() < kMostThreads)
      look.threads.push_back(look_at_thread(fmt::format("{}/task/{}", directory, name), tid));
  }
  if (look.threads.front().state.empty()) return {};
  std::sort(look.threads.begin() + 1, look.threads.end(),
            [](const auto& a, const auto& b) { return a.tid < b.tid; });
  look.started = stat_number(read_text(directory + "/stat"), 22);
  const std::string status = read_text(directory + "/status");
  look.threads.front().switches = number_of(status, "voluntary_ctxt_switches");
  look.tracer = static_cast<int>(number_of(status, "TracerPid"));
  if (look.tracer != 0) look.tracer_name = name_at(fmt::format("/proc/{}", look.tracer));
  look.is_frozen = is_frozen(pid);
  const std::string io = read_text(directory + "/io");
  look.read_bytes = number_of(io, "rchar");
  look.written_bytes = number_of(io, "wchar");
  look.storage_read_bytes = number_of(io, "read_bytes");
  look.storage_written_bytes = number_of(io, "write_bytes");
  look.throttled_s = throttled_seconds(pid);
  return look;
}

bool has_mapped(pid_t pid, std::string_view name) {
  return read_text(fmt::format("/proc/{}/maps", pid)).find(name) != std::string::npos;
}

std::map<int, std::string> open_files(pid_t pid) {
  std::map<int, std::string> files;
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  for (const std::string& name : names_in(folder)) {
    std::error_code unreadable;
    const fs::path target = fs::read_symlink(fs::path(folder) / name, unreadable);
    if (!unreadable) files[std::atoi(name.c_str())] = target.string();
  }
  return files;
}

int holder_of_lock(const std::string& locks, pid_t waits) {
  std::istringstream lines(locks);
  int holder = 0;
  for (std::string line; std::getline(lines, line);) {
    // "1: FLOCK  ADVISORY  WRITE 4711 08:01:42 0 EOF", and below it those that wait: "1: -> FLOCK …".
    std::istringstream words(line);
    std::string number, arrow, kind, mode, access;
    int pid = 0;
    words >> number >> arrow;
    const bool is_waiting = arrow == "->";
    if (is_waiting) words >> kind;
    words >> mode >> access >> pid;
    if (!is_waiting) holder = pid;
    if (is_waiting && pid == waits) return holder;
  }
  return 0;
}

Object object_of(pid_t pid, const SystemCall& call, const std::string& path) {
  Object object;
  if (!path.empty()) {
    object.path = path;
    if (path[0] != '/') {
      std::error_code unreadable;
      const fs::path folder = fs::read_symlink(fmt::format("/proc/{}/cwd", pid), unreadable);
      if (!unreadable) object.path = (folder / path).string();
    }
    find_mount(pid, object, {});
    return object;
  }
  if (!takes_descriptor(call.number)) return object;
  const int fd = static_cast<int>(call.arguments[0]);
  const std::map<int, std::string> files = open_files(pid);
  const auto found = files.find(fd);
  if (found == files.end()) return object;
  object.path = found->second;
  if (object.path.starts_with("/")) {
    if (is_file_lock(call.number)) {
      const int holder = holder_of_lock(read_text("/proc/locks"), pid);
      if (holder > 0)
        object.other_end = fmt::format("pid {} ({})", holder, name_at(fmt::format("/proc/{}", holder)));
    }
    const std::string facts = read_text(fmt::format("/proc/{}/fdinfo/{}", pid, fd));
    find_mount(pid, object, std::string(value_of(facts, "mnt_id")));
  } else if (object.path.starts_with("pipe:")) {
    object.other_end = other_end_of_pipe(pid, object.path, reads(call.number));
  } else if (const std::string inode = inode_of(object.path, "socket:"); !inode.empty()) {
    for (const char* table : {"tcp", "tcp6"}) {
      for (const Connection& connection :
           parse_tcp_table(read_text(fmt::format("/proc/{}/net/{}", pid, table)), {inode}))
        object.other_end = connection.remote;
    }
  }
  return object;
}

std::vector<Connection> parse_tcp_table(const std::string& table, const std::vector<std::string>& inodes) {
  std::vector<Connection> connections;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // names of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    constexpr std::string_view kEstablished = "01";
    if (state != kEstablished || std::find(inodes.begin(), inodes.end(), inode) == inodes.end()) continue;
    const std::size_t colon = queues.find(':');
    if (colon == std::string::npos) continue;
    connections.push_back({.local = address_of(local),
                           .remote = address_of(remote),
                           .unsent = std::strtoull(queues.c_str(), nullptr, 16),
                           .unread = std::strtoull(queues.c_str() + colon + 1, nullptr, 16),
                           .retransmits = static_cast<int>(std::strtol(retransmits.c_str(), nullptr, 16))});
  }
  return connections;
}

std::vector<Connection> tcp_connections(pid_t pid) {
  std::vector<std::string> inodes;
  for (const auto& [fd, target] : open_files(pid)) {
    if (std::string inode = inode_of(target, "socket:"); !inode.empty()) inodes.push_back(std::move(inode));
  }
  std::vector<Connection> connections;
  for (const char* table : {"tcp", "tcp6"}) {
    const std::string text = read_text(fmt::format("/proc/{}/net/{}", pid, table));
    for (Connection& connection : parse_tcp_table(text, inodes)) connections.push_back(std::move(connection));
  }
  return connections;
}

bool writes_to_any(pid_t pid, const std::set<std::string>& files) {
  if (files.empty()) return false;
  const std::map<int, std::string> open = open_files(pid);
  return std::any_of(open.begin(), open.end(), [&](const auto& one) {
    constexpr std::uint64_t kAccess = 3;  // of its flags; 0: for reading only
    return files.contains(one.second) &&
           (number_of(read_text(fmt::format("/proc/{}/fdinfo/{}", pid, one.first)), "flags", 8) & kAccess) !=
               0;
  });
}

std::map<std::string, Received> connections_of(pid_t pid, const std::map<std::string, Received>& received) {
  std::map<std::string, Received> found;
  for (const auto& [descriptor, file] : open_files(pid)) {
    const auto one = received.find(inode_of(file, "socket:"));
    if (one != received.end()) found.insert(*one);
  }
  return found;
}

std::set<std::string> awaited_files(pid_t pid, const ThreadLook& thread, const ProcessMemory& memory) {
  std::set<int> descriptors;
  if (reads(thread.call.number)) descriptors.insert(static_cast<int>(thread.call.arguments[0]));
  if (is_epoll(thread.call.number)) {
    std::istringstream lines(
        read_text(fmt::format("/proc/{}/fdinfo/{}", pid, static_cast<int>(thread.call.arguments[0]))));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("tfd:")) descriptors.insert(std::atoi(line.c_str() + 4));
    }
  } else if (is_poll(thread.call.number) && memory.problem().empty()) {
    constexpr std::uint64_t kMost = 256;
    std::vector<pollfd> asked(std::min(thread.call.arguments[1], kMost));
    if (!asked.empty() &&
        memory.reader()(thread.call.arguments[0], asked.data(), asked.size() * sizeof(pollfd))) {
      for (const pollfd& one : asked) {
        if ((one.events & POLLIN) != 0) descriptors.insert(one.fd);
      }
    }
  }
  std::set<std::string> files;
  if (descriptors.empty()) return files;
  for (const auto& [descriptor, file] : open_files(pid)) {
    if (descriptors.contains(descriptor)) files.insert(file);
  }
  return files;
}

double silence_of(const std::set<std::string>& files, const std::map<std::string, Received>& received) {
  double shortest = -1;
  for (const std::string& file : files) {
    const auto found = received.find(inode_of(file, "socket:"));
    if (found != received.end() && (shortest < 0 || found->second.silent_s < shortest))
      shortest = found->second.silent_s;
  }
  return shortest;
}

bool lead_to_port(const std::set<std::string>& files, const std::map<std::string, Received>& received,
                  const std::string& port) {
  return !port.empty() && std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    const auto found = received.find(inode_of(file, "socket:"));
    return found != received.end() && found->second.remote.ends_with(":" + port);
  });
}

std::vector<pid_t> file_servers(const std::string& device, pid_t but,
                                const std::vector<ProcessEntry>& processes) {
  // The minor number of such a mount's device is the number of its connection. Kernels before 6.13 do not tell it. And
  // close() has let go of its descriptor before it waits, so that nobody can see of which mount the file is.
  const std::string wanted = device.substr(std::min(device.size(), device.find(':') + 1));
  const auto serves = [&](const ProcessEntry& process) {
    for (const auto& [descriptor, file] : open_files(process.pid)) {
      if (file != "/dev/fuse") continue;
      const std::string facts = read_text(fmt::format("/proc/{}/fdinfo/{}", process.pid, descriptor));
      const std::string_view connection = value_of(facts, "fuse_connection");
      if (wanted.empty() || connection.empty() || connection == wanted) return true;
    }
    return false;
  };
  std::vector<pid_t> servers;
  for (const ProcessEntry& process : processes) {
    if (process.pid != but && process.pid != ::getpid() && serves(process)) servers.push_back(process.pid);
  }
  return servers;
}

std::vector<pid_t> descendants(pid_t pid, const std::vector<ProcessEntry>& processes) {
  std::vector<pid_t> found{pid};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const ProcessEntry& process : processes) {
      const bool is_known = std::find(found.begin(), found.end(), process.pid) != found.end();
      if (process.parent == found[i] && !is_known) found.push_back(process.pid);
    }
  }
  found.erase(found.begin());
  return found;
}

}  // namespace ddprun::launcher::why
