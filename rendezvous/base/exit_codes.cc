#include "rendezvous/base/exit_codes.h"

namespace ddprun {

int to_exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return exit_code::kUsage;
    case ErrorCode::kConfig:
    case ErrorCode::kCorrupt: return exit_code::kConfig;
    case ErrorCode::kNotFound: return exit_code::kNotFound;
    case ErrorCode::kCannotExecute: return exit_code::kCannotExecute;
    case ErrorCode::kUnavailable: return exit_code::kUnavailable;
    case ErrorCode::kTimeout:
    case ErrorCode::kPeerLost: return exit_code::kTempFail;
    case ErrorCode::kOs: return exit_code::kOs;
    case ErrorCode::kInternal: return exit_code::kInternal;
  }
  return exit_code::kInternal;
}

}  // namespace ddprun
