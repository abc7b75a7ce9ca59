#include "rendezvous/base/error.h"

#include <fmt/format.h>

#include <system_error>

namespace ddprun {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return "usage";
    case ErrorCode::kConfig: return "config";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kCannotExecute: return "cannot execute";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kPeerLost: return "peer lost";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kOs: return "os";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

Error Error::with(std::string_view context) const { return {code_, fmt::format("{}: {}", context, message_)}; }

Error os_error(std::string_view what, int errno_value) {
  return {ErrorCode::kOs, fmt::format("{}: {}", what, std::generic_category().message(errno_value))};
}

}  // namespace ddprun
