#pragma once

#include "launcher/why/facts/facts.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::launcher::why {

struct NativeStacks {
  std::vector<NativeThread> threads;
  std::string problem;   ///< why there are none, in a sentence
  double stopped_s = 0;  ///< for how long threads were stopped
};

/// The stacks of all threads of a process, by libdw, which is opened when it is needed. Every thread is stopped for
/// about a millisecond (PTRACE_SEIZE and PTRACE_INTERRUPT, never PTRACE_ATTACH, which leaves a process stopped for good
/// when it was in the kernel), never longer than 50 ms at a time: what did not stop or was not walked by then is left
/// out. Where that is the main thread, or it is in a call that a stop would end, it is tried again for 0.3 s. Files are
/// opened before, names looked up after. Nothing is stopped unless `pid` is still the process of that look.
///
/// Process  for one that ends soon: its end lets go of whatever it holds, and libdw keeps 100 MB.
NativeStacks native_stacks(pid_t pid, const ProcessLook& look);

/// "c10d::Work::wait" of "c10d::Work::wait(std::chrono::duration<long, …>)": without parameters and template
/// arguments. Pure.
std::string short_function_name(const std::string& demangled);

}  // namespace ddprun::launcher::why
