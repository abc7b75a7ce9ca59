#pragma once

#include "launcher/process/process_table.h"
#include "launcher/why/facts/facts.h"
#include "launcher/why/look/process_memory.h"
#include "launcher/why/look/socket_diag.h"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// Seconds of the clock that goes on while the machine is suspended.
double boot_time();

/// What /proc shows of a process now; no threads: it is gone. It reads files of /proc and of the control group only,
/// and is not seen by the process.
ProcessLook look_at_process(pid_t pid);

/// When a process was started, in ticks since boot; 0: there is none.
std::uint64_t start_of(pid_t pid);

/// Parses /proc/<pid>/syscall: "running", "-1 …", or the number and the arguments in hexadecimal. Pure.
SystemCall parse_system_call(const std::string& text);

/// Whether a file with `name` in its path lies in the memory of a process.
bool has_mapped(pid_t pid, std::string_view name);

/// Descriptor → "socket:[4711]", "/data/x", as /proc/<pid>/fd has it.
std::map<int, std::string> open_files(pid_t pid);

/// Who has the lock of a file for which a process waits, by the text of /proc/locks; 0: it waits for none, or he is not
/// seen here. Pure.
int holder_of_lock(const std::string& locks, pid_t waits);

/// What the call of a process is about: its descriptor's file, or the path that it opens. `path` is the path in its
/// memory, where it could be read.
Object object_of(pid_t pid, const SystemCall& call, const std::string& path);

/// TCP connections of a process that are established, in its own network namespace.
std::vector<Connection> tcp_connections(pid_t pid);

/// Those of `received` that a process has open.
std::map<std::string, Received> connections_of(pid_t pid, const std::map<std::string, Received>& received);

/// "pipe:[4711]", "socket:[4712]": from which of them the call of a thread waits for data; none: from no descriptor, or
/// by select(), whose lists are not read.
std::set<std::string> awaited_files(pid_t pid, const ThreadLook& thread, const ProcessMemory& memory);

/// Whether it has one of these open for writing.
bool writes_to_any(pid_t pid, const std::set<std::string>& files);

/// Seconds since the other end of one of these was heard, be it when it was connected; -1: none is among `received`.
/// Pure.
double silence_of(const std::set<std::string>& files, const std::map<std::string, Received>& received);

/// Whether one of these is a connection to that port. Pure.
bool lead_to_port(const std::set<std::string>& files, const std::map<std::string, Received>& received,
                  const std::string& port);

/// Lines of /proc/net/tcp or tcp6 whose inodes are in `files`. Pure.
std::vector<Connection> parse_tcp_table(const std::string& table, const std::vector<std::string>& inodes);

/// The processes that serve the FUSE file system that is this device, "0:39", or any where it is not known
/// which; of those whose files may be seen, without this one and `but`.
std::vector<pid_t> file_servers(const std::string& device, pid_t but,
                                const std::vector<ProcessEntry>& processes);

/// The direct and later children of a process.
std::vector<pid_t> descendants(pid_t pid, const std::vector<ProcessEntry>& processes);

}  // namespace ddprun::launcher::why
