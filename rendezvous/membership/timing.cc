#include "rendezvous/membership/timing.h"

#include "rendezvous/base/parse_decimal.h"
#include "rendezvous/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun::membership {
namespace {

constexpr std::array<std::string_view, 8> kWithoutMeaning{"close_timeout",   "heartbeat_timeout", "rank",
                                                          "read_timeout",    "store_type",        "timeout",
                                                          "use_agent_store", "use_libuv"};

Duration* find_duration(Timing& timing, std::string_view key) {
  if (key == "join_timeout") return &timing.join_timeout;
  if (key == "last_call_timeout") return &timing.debounce;
  if (key == "keep_alive_interval") return &timing.heartbeat;
  if (key == "rejoin_timeout") return &timing.rejoin_timeout;
  return nullptr;
}

std::optional<double> parse_number(const std::string& text) {
  const std::optional<double> value = parse_decimal(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Error refuse_key(const std::string& key) {
  const std::vector<std::string> known{"join_timeout",           "last_call_timeout", "keep_alive_interval",
                                       "keep_alive_max_attempt", "rejoin_timeout",    "is_host"};
  return {ErrorCode::kUsage, fmt::format("unknown key \"{}\", known are {}{}", key, fmt::join(known, ", "),
                                         did_you_mean(key, known))};
}

Error refuse_value(const std::string& key, const std::string& value, std::string_view wanted) {
  return {ErrorCode::kUsage, fmt::format("{} must be {}, got \"{}\"", key, wanted, value)};
}

}  // namespace

Result<RdzvConf> parse_rdzv_conf(const std::map<std::string, std::string>& conf) {
  RdzvConf result;
  Timing& timing = result.timing;
  for (const auto& [key, text] : conf) {
    if (std::find(kWithoutMeaning.begin(), kWithoutMeaning.end(), key) != kWithoutMeaning.end()) continue;
    const std::optional<double> number = parse_number(text);
    if (Duration* duration = find_duration(timing, key)) {
      const bool may_be_zero = key == "last_call_timeout";
      if (!number || *number > 1e8 || *number < 0 || (*number < 0.001 && !may_be_zero)) {
        return refuse_value(key, text, may_be_zero ? "seconds, 0 or more" : "seconds, at least 0.001");
      }
      *duration = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*number));
      if (duration == &timing.heartbeat && *duration > kLongestHeartbeat) {
        return refuse_value(key, text,
                            fmt::format("seconds, 0.001 to {:.0f} (a day)", to_seconds(kLongestHeartbeat)));
      }
    } else if (key == "keep_alive_max_attempt") {
      if (!number || *number < 2 || *number > 1000 || *number != std::floor(*number)) {
        return refuse_value(key, text, "a whole number from 2 to 1000");
      }
      timing.missed_heartbeats = static_cast<int>(*number);
    } else if (key == "is_host") {
      const bool yes = text == "1" || text == "true" || text == "True";
      if (!yes && text != "0" && text != "false" && text != "False")
        return refuse_value(key, text, "true or false");
      result.is_host = yes;
    } else {
      return refuse_key(key);
    }
  }
  return result;
}

}  // namespace ddprun::membership
