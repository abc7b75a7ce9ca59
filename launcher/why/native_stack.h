#pragma once

#include "launcher/why/facts.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::launcher::why {

struct NativeStacks {
  std::vector<NativeThread> threads;
  std::string problem;  ///< why there are none, in a sentence
};

/// The stacks of all threads of a process, by libdw, which is opened when it is needed. Every thread is stopped for
/// about a millisecond (PTRACE_SEIZE and PTRACE_INTERRUPT, never PTRACE_ATTACH, which leaves a process stopped for good
/// when it was in the kernel); one that does not stop within 100 ms is left alone. Names are looked up when all run
/// again.
///
/// Process  for one that ends soon: its end lets go of whatever it holds, and libdw keeps 100 MB.
NativeStacks native_stacks(pid_t pid, const std::vector<ThreadLook>& threads);

/// "c10d::Work::wait" of "c10d::Work::wait(std::chrono::duration<long, …>)": without parameters and template
/// arguments. Pure.
std::string short_function_name(const std::string& demangled);

}  // namespace ddprun::launcher::why
