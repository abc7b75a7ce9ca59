#pragma once

#include "launcher/process/process_table.h"

#include <sys/types.h>

#include <vector>

namespace ddprun::launcher {

/// Who is to hear a Ctrl-C besides the leader of a session, which hears it.
struct CtrlC {
  std::vector<pid_t> hears;
  bool spares = false;  ///< somebody is spared, and is to hear it once its parent waits for it
};

/// A terminal sends Ctrl-C to its whole foreground, and so it goes to every program that came from the leader and is in
/// its session still. Spared are a program's helpers, which its save may need: copies of itself (fork) and what
/// multiprocessing starts, which are data loaders and pools; unless their parent does nothing but wait for them, as
/// that of torch.multiprocessing.spawn does. A program that hears it twice may break off its save: left out is who
/// hears it of its parent, as uv's child, and timeout, which would tell its program once more.
CtrlC ctrl_c_behind(const std::vector<ProcessEntry>& processes, pid_t leader);

/// Whether a process does nothing but wait for its children: it is a shell or as one, or its first thread waits for the
/// end of a child, or for descriptors without a time-out, as multiprocessing does for the ends of its children.
bool waits_for_children(pid_t pid);

/// The programs behind the leader of a session that do the work: what it has started and what that has, from one that
/// waits for its children to the next, without those that wait.
std::vector<pid_t> programs_behind(const std::vector<ProcessEntry>& processes, pid_t leader);

}  // namespace ddprun::launcher
