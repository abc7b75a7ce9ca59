#pragma once

#include <exception>
#include <functional>
#include <string>

namespace ddprun {

/// Runs a worker's main function so that whatever ends it leaves a trace for the launcher:
///
///     int main() {
///       return ddprun::record([] {
///         …
///         return 0;
///       });
///     }
///
/// An uncaught exception, std::abort or a crash writes the error file named by TORCHELASTIC_ERROR_FILE (the
/// JSON that torchrun reads: type and message, time, a stack with function names) and says the same on
/// stderr. An exception ends the process with the exit code of its ErrorCode if it is a ddprun::Exception,
/// with 75 (trying again makes sense) if it is libtorch's or gloo's about a peer that is gone, also when one
/// of libtorch's own threads throws it, else with 1; a crash with its own signal.
///
/// The stack is that of the throw, if nothing between it and `record` catches. Link with -rdynamic
/// (find_package(ddprun) does) to see the names of the program's own functions.
/// Threads  handlers serve all threads of the process. Call once, from main.
int record(const std::function<int()>& main);

/// Writes the error file (type, message, time, the stack of this call) for an exception that a program caught
/// at a border of its own. Says nothing on stderr; does nothing where no launcher named a file.
void write_error_file(const std::exception& error);

/// The same with a message alone: for what the user has to mend, where a stack would only distract.
void write_error_file(const std::string& message);

}  // namespace ddprun
