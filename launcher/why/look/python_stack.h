#pragma once

#include "launcher/why/facts/facts.h"

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::launcher::why {

struct PythonStacks {
  std::vector<PythonThread> threads;  ///< the main one first
  std::string problem;                ///< why there are none, in a sentence
};

/// py-spy, which is found on PATH or beside the interpreter of `pid`; empty: there is none.
std::string find_py_spy(pid_t pid);

/// Whether the process has Python in it, by its mappings.
bool runs_python(pid_t pid);

/// Has py-spy read the stacks of a process without stopping it, and waits for it no longer than `limit`.
PythonStacks python_stacks(const std::string& py_spy, pid_t pid, std::chrono::milliseconds limit);

/// What `py-spy dump --json` prints. Pure.
PythonStacks parse_py_spy(const std::string& json, pid_t main_thread);

/// Puts the text of its line into each frame. Opens the files, which may block.
void read_source_lines(pid_t pid, std::vector<PythonThread>& threads);

}  // namespace ddprun::launcher::why
