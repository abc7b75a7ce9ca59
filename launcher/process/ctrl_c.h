#pragma once

#include "launcher/process/process_table.h"

#include <sys/types.h>

#include <vector>

namespace ddprun::launcher {

/// Who is to hear a Ctrl-C besides the leader of a session, which hears it.
struct CtrlC {
  std::vector<ProcessEntry> hears;
  std::vector<ProcessEntry> told;  ///< who hears it of another, or whose program does of us
  bool spares = false;             ///< somebody is spared, and is to hear it once its parent waits for it
};

/// A terminal sends Ctrl-C to its whole foreground, and so it goes to every program that came from the leader and is in
/// its session still, and in its parent's OS process group or that of a shell's job: another program puts into another
/// group what Ctrl-C is not for. Spared, if `spares_helpers`, are a program's helpers, which its save may need: copies
/// of itself (fork) and what multiprocessing starts, which are data loaders and pools; unless their parent waits for
/// the end of one of them, as that of torch.multiprocessing.spawn does at its own end. A program that hears it twice
/// may break off its save: left out is who hears it of its parent, as uv's child, and timeout, which would tell its
/// program once more; and who ignores it.
CtrlC ctrl_c_behind(const std::vector<ProcessEntry>& processes, pid_t leader, int signal,
                    bool spares_helpers);

/// Whether it is timeout, which tells its child and then all of its OS process group, the child too: one that is told
/// makes its program hear a signal twice.
bool tells_its_group(const ProcessEntry& process);

/// Whether the first thread of a process waits for the end of a child, and does nothing else meanwhile.
bool waits_for_a_child(pid_t pid);

/// The programs behind the leader of a session that do the work: what it has started and what that has, from a shell,
/// or who waits for a child, to that, without those that wait themselves. One that is stopped does not wait.
std::vector<ProcessEntry> programs_behind(const std::vector<ProcessEntry>& processes, pid_t leader);

}  // namespace ddprun::launcher
