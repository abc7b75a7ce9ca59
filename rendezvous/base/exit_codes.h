#pragma once

#include "rendezvous/base/error.h"

namespace ddprun {

/// The exit codes that are ddprun's own (sysexits.h where it has one). A failed job exits with the guilty worker's
/// code instead, or 128 + signal. The README's table is held against this list by a test.
namespace exit_code {
inline constexpr int kOk = 0;
inline constexpr int kUsage = 64;        ///< bad flag, value or combination
inline constexpr int kUnavailable = 69;  ///< rendezvous or store cannot be had
inline constexpr int kInternal = 70;     ///< a bug in ddprun, or a replica unlike the others
inline constexpr int kOs = 71;           ///< the machine refused: fork, disk, memory
inline constexpr int kTempFail = 75;     ///< timed out, lost a peer or was drained; trying again makes sense
inline constexpr int kConfig = 78;       ///< a job file, data file or checkpoint is wrong
inline constexpr int kDoNotRestart = 93; ///< a worker says: a restart will not help (default of --no-restart-exit-codes)
inline constexpr int kCannotExecute = 126;  ///< the program is there but cannot be run
inline constexpr int kNotFound = 127;       ///< the program is not there
inline constexpr int kSignalBase = 128;     ///< + signal number: killed, or ended by a signal to the launcher
}  // namespace exit_code

/// The exit code of a process that ends because of `code`.
int to_exit_code(ErrorCode code);

}  // namespace ddprun
