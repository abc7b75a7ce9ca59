#pragma once

#include <string_view>

namespace ddprun {

/// What went wrong, coarsely: it decides the exit code (exit_codes.h), the message says the rest.
enum class ErrorCode {
  kUsage,          ///< the command line is wrong
  kConfig,         ///< a configuration file or value is wrong
  kNotFound,       ///< a file, program or key is not there
  kCannotExecute,  ///< a program is there but cannot be run
  kUnavailable,    ///< a peer, store or port cannot be had
  kTimeout,        ///< a deadline passed
  kPeerLost,       ///< a member of the world left
  kCorrupt,        ///< bytes that cannot be what they claim to be
  kOs,             ///< a system call failed
  kInternal,       ///< a bug of ours, or of the hardware
};

std::string_view to_string(ErrorCode code);

}  // namespace ddprun
