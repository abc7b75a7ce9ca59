#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun {

/// A variable of ours beside those of env_contract.h: why the workers were started again, "rank 2 (pid 4711) was
/// killed by SIGKILL after 3.2 s: out of memory", in one line of printable(). Not set at the first start, nor on a
/// node that was not there before.
inline constexpr std::string_view kRestartCauseName = "DDPRUN_RESTART_CAUSE";
inline constexpr std::size_t kLongestRestartCause = 500;  ///< bytes

}  // namespace ddprun
