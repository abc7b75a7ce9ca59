#include "rendezvous/base/log.h"

#include "rendezvous/base/print.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace ddprun {
namespace {

// One write(2) a line keeps lines of several processes apart on a shared stderr. A failed write has nowhere to be
// reported, so it is dropped.
class StderrSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    print_all(STDERR_FILENO, {line.data(), line.size()});
  }
  void flush_() override {}
};

}  // namespace

Result<spdlog::level::level_enum> parse_log_level(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 8> kNames{{
      {"trace", spdlog::level::trace},
      {"debug", spdlog::level::debug},
      {"info", spdlog::level::info},
      {"warn", spdlog::level::warn},
      {"warning", spdlog::level::warn},
      {"error", spdlog::level::err},
      {"critical", spdlog::level::err},
      {"off", spdlog::level::off},
  }};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) { return entry.first == lower; });
  if (found == kNames.end()) {
    return Error(ErrorCode::kUsage,
                 fmt::format("log level \"{}\" is not one of trace, debug, info, warn, error, off", text));
  }
  return found->second;
}

std::shared_ptr<Logger> make_stderr_logger(const std::string& name, spdlog::level::level_enum level) {
  auto logger = std::make_shared<Logger>(name, std::make_shared<StderrSink>());
  logger->set_pattern("%H:%M:%S.%e %^%-5l%$ %n: %v");
  logger->set_level(level);
  return logger;
}

std::shared_ptr<Logger> make_null_logger() {
  return std::make_shared<Logger>("null", std::make_shared<spdlog::sinks::null_sink_st>());
}

}  // namespace ddprun
