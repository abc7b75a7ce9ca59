#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::why {

/// The system call that a thread is in.
struct SystemCall {
  int number = -1;  ///< -1: in none (it runs), or it may not be known
  std::array<std::uint64_t, 6> arguments{};
  bool operator==(const SystemCall&) const = default;
};

/// What /proc shows of a thread at one moment.
struct ThreadLook {
  int tid = 0;
  std::string name;
  std::string state;  ///< R, S, D, T, t, Z
  std::string wait_channel;
  SystemCall call;
  double cpu_s = 0;
  double queued_s = 0;  ///< runnable, but without a CPU
  std::uint64_t major_faults = 0;
  std::uint64_t switches = 0;  ///< how often it has waited; of the main thread only
};

/// What /proc shows of a process at one moment. The first thread is the main one.
struct ProcessLook {
  double at_s = 0;            ///< CLOCK_BOOTTIME
  std::uint64_t started = 0;  ///< in ticks since boot: with its pid, which process it is
  std::vector<ThreadLook> threads;
  int tracer = 0;  ///< pid of its debugger; 0: none
  std::string tracer_name;
  bool is_frozen = false;        ///< by its control group
  std::uint64_t read_bytes = 0;  ///< by system calls that have ended, whatever they read from
  std::uint64_t written_bytes = 0;
  /// From and to disks and network file systems, as it goes on: also within a call, and of files that are mapped.
  std::uint64_t storage_read_bytes = 0;
  std::uint64_t storage_written_bytes = 0;
  double throttled_s = 0;  ///< its control group's CPU quota was used up for so long
};

/// What the first argument of a call is, or the path of an open: told only where the main thread was in the same call
/// in both looks, but for `silent_s` and `is_store`.
struct Object {
  std::string path;    ///< "/data/shard-0017.tar", "pipe:[4711]", "socket:[4712]"; empty: the call has none
  std::string mount;   ///< type of the file system, "nfs4"; empty: none or not known
  std::string source;  ///< what is mounted, "fs01:/data"
  std::string device;  ///< of what is mounted, "0:39"
  std::string other_end;  ///< of a pipe: "pid 4711 (ddprun)"; of a TCP connection: its address
  /// Of the TCP connections for which the main thread waits: since the other end was heard; -1: there is none.
  double silent_s = -1;
  bool is_store = false;  ///< it waits for an answer of the job's store, at MASTER_PORT
};

/// Collective::backend where PyTorch's ProcessGroupNCCL has recorded it, when it was queued.
inline constexpr std::string_view kNccl = "nccl";

/// An entry of PyTorch's flight recorder.
struct Collective {
  std::string group;          ///< name of the process group, equal on all ranks
  std::string backend{};      ///< of that group: "gloo", "nccl" or "shm"; each of them counts for itself
  std::int64_t sequence = 0;  ///< in that group over that backend, from 1
  std::uint64_t id = 0;       ///< in that process over that backend, all groups together
  std::string operation;      ///< "all_reduce"
  bool is_peer = false;       ///< a send or receive: `sequence` is then that of the last collective
  int peer = -1;              ///< its other rank in the group; -1: any, or not known
  std::vector<std::int64_t> sizes;  ///< of all tensors, one after the other
  std::vector<int> types;           ///< c10::ScalarType of each input
  std::int64_t created_ns = 0;      ///< CLOCK_REALTIME
  bool is_over = false;
  /// It has not ended, and later ones of other groups are left out between it and those that are told.
  bool lingers = false;
};

/// A process group that a rank is in, whether it has used it or not.
struct Membership {
  std::string group;    ///< its name, as in Collective
  std::string ranks{};  ///< its members, "0-3,8", which tells groups of one name apart; empty: not told
  /// By backend, the number of its newest collective, however old that is; 0: it has done none; not there: it may have.
  std::map<std::string, std::int64_t> newest{};
};

/// What PyTorch's flight recorders, one for each backend, and libddprun's page tell in the memory of a rank.
struct Recorder {
  bool is_there = false;
  /// Why it is not, or what of it could not be read, in a sentence; empty where no libtorch is loaded. Of a group in
  /// which there are entries all is known.
  std::string problem;
  std::uint64_t next = 0;
  std::vector<Collective> entries;        ///< the oldest first
  std::vector<Membership> memberships{};  ///< those that are known; told with the second look
};

/// What a rank with libddprun tells of itself beside its collectives.
struct RankProgress {
  std::int64_t step = -1;   ///< -1: not told
  std::string phase{};      ///< "evaluates"; empty: not told
  std::uint64_t beats = 0;  ///< grows with every step, phase and sign of progress
};

struct Frame {
  std::string function;
  std::string file;
  int line = 0;
  std::string source;  ///< that line; empty: not readable
};

/// A thread of Python, as py-spy shows it.
struct PythonThread {
  int tid = 0;
  std::string name;
  bool owns_gil = false;
  std::vector<Frame> frames;  ///< the innermost first
};

struct NativeThread {
  int tid = 0;
  std::string name;
  std::vector<std::string> functions;  ///< the innermost first
};

/// A TCP connection, as the socket table shows it.
struct Connection {
  std::string local;  ///< "10.0.0.1:4711"
  std::string remote;
  std::uint64_t unsent = 0;  ///< bytes sent that nobody has acknowledged, or not sent yet
  std::uint64_t unread = 0;  ///< bytes received that the process has not read
  int retransmits = 0;       ///< of what it sends now, without an answer
  std::uint64_t came = 0;    ///< bytes received between the looks, where the kernel tells
  std::uint64_t went = 0;    ///< the same of those that were sent and have arrived
  [[nodiscard]] bool is_unanswered() const { return retransmits > 0 && unsent > 0; }
};

/// A process that a rank has started, such as a DataLoader worker.
struct Child {
  int pid = 0;
  std::string name;
  std::string state;
  SystemCall call;
  Object object;
  bool is_busy = false;
  double bytes_per_s = 0;  ///< read and written, or over TCP
  bool feeds = false;      ///< it has a pipe open for writing from which a thread of the rank waits for data
  std::vector<PythonThread> python;
};

/// All that is known of a rank.
struct RankFacts {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;  ///< of the process that does the work: its worker, or what that has started; 0: it has ended
  int siblings = 0;  ///< processes below its worker that train beside that one, and are not looked at
  bool ended_with_0 = false;  ///< with pid 0: its launcher says so
  std::string host;
  std::string program;  ///< its command's first words
  std::string problem;  ///< why less is known of it than of others, in a sentence
  ProcessLook first;
  ProcessLook second;
  Object object;
  Recorder recorder_first;
  Recorder recorder;
  RankProgress progress_first;
  RankProgress progress;
  std::vector<PythonThread> python;
  std::string python_problem;
  std::vector<NativeThread> native;
  std::string native_problem;
  double stopped_s = 0;  ///< for how long its threads were stopped for their native stacks
  std::vector<Connection> connections;
  /// Those of its node's launcher that get no answer. Told with one rank of the node.
  std::vector<Connection> launcher_connections{};
  std::vector<Child> children;
  /// Where its main thread waits for a file system whose server is a process (FUSE): those that serve one, as far as
  /// they may be looked at.
  std::vector<Child> file_servers{};
  /// For how long no rank of its node has shown that it gets on, as the watch for hangs there has felt it: a look lasts
  /// a second, and what a rank tells and messages have no time with them. -1: not known.
  double quiet_s = -1;
};

/// Whether it is one of NCCL's, or of those of torch that watch over it.
inline bool is_nccls(const ThreadLook& thread) {
  return thread.name.starts_with("pt_nccl") || thread.name.starts_with("NCCL");
}

/// Whether it was looked at twice, or has ended: the time may have been over before, and another node may tell
/// anything.
inline bool was_read(const RankFacts& facts) {
  return facts.pid == 0 || (!facts.first.threads.empty() && !facts.second.threads.empty());
}

/// Tells when its collectives began by a clock that shows `by_ns` more.
inline void shift_times(RankFacts& facts, std::int64_t by_ns) {
  for (Recorder* const recorder : {&facts.recorder_first, &facts.recorder}) {
    for (Collective& entry : recorder->entries) entry.created_ns += by_ns;
  }
}

/// A job at one moment: what the verdict is made from.
struct JobPicture {
  std::string tag;
  int launcher = 0;
  bool is_launcher_stopped = false;  ///< by a signal, so that it notices nothing
  std::string command;
  int generation = 0;    ///< membership::restart_count() of it
  std::string phase;     ///< of PublishedJob
  std::string awaits{};  ///< the same
  int world_size = 0;
  std::int64_t taken_ns = 0;          ///< CLOCK_REALTIME of the second look
  std::vector<RankFacts> ranks;       ///< by rank; those of other nodes may be missing
  bool asks_others = false;           ///< the other nodes were asked
  std::vector<std::string> unseen{};  ///< why ranks of other nodes are missing, in a sentence for each node
  std::vector<std::string> silent_nodes{};  ///< "node c (10.0.0.3)": of these, who has not answered
};

}  // namespace ddprun::launcher::why
