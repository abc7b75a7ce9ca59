#include "launcher/text/wall_time.h"

#include <fmt/format.h>
#include <time.h>

namespace ddprun::launcher {

std::string format_wall_time(std::chrono::system_clock::time_point time) {
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = since_epoch / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, since_epoch % 1'000'000'000);
}

}  // namespace ddprun::launcher
