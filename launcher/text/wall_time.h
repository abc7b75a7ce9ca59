#pragma once

#include <chrono>
#include <string>

namespace ddprun::launcher {

/// ISO 8601 in UTC with nanoseconds: "2026-11-21T10:31:24.000000001Z".
std::string format_wall_time(std::chrono::system_clock::time_point time);

}  // namespace ddprun::launcher
