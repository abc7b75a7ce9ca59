#pragma once

#include <chrono>
#include <string>

namespace ddprun {

/// A time for messages, as exact as is of use and never rounded to none: "0.4 ms", "1 ms", "250 ms", "3.2 s",
/// "4 min 10 s", "2 h 5 min".
std::string format_duration(std::chrono::duration<double> duration);

}  // namespace ddprun
