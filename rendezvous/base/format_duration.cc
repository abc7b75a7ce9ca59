#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace ddprun {
namespace {

/// "2 h 5 min", "2 h".
std::string two_units(long amount, long in_one, std::string_view large, std::string_view small) {
  std::string text = fmt::format("{} {}", amount / in_one, large);
  if (amount % in_one != 0) text += fmt::format(" {} {}", amount % in_one, small);
  return text;
}

}  // namespace

// Each limit is where the next unit would begin in print.
std::string format_duration(std::chrono::duration<double> duration) {
  const double seconds = duration.count();
  const double milliseconds = seconds * 1e3;
  if (seconds == 0) return "0.0 s";
  if (milliseconds < 9.5) {
    const double tenths = std::max(0.1, std::round(milliseconds * 10) / 10);
    return fmt::format("{} ms", tenths);
  }
  if (milliseconds < 999.5) return fmt::format("{:.0f} ms", milliseconds);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return two_units(whole, 60, "min", "s");
  return two_units(whole / 60, 60, "h", "min");
}

}  // namespace ddprun
