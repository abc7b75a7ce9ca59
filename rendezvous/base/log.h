#pragma once

#include "rendezvous/base/result.h"

#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

/// The logger that is passed by reference; built here, never taken from spdlog's registry.
using Logger = spdlog::logger;

/// "trace", "debug", "info", "warn", "error" or "off" in any case (Python's "WARNING" and "CRITICAL" too).
Result<spdlog::level::level_enum> parse_log_level(std::string_view text);

/// A logger that writes lines such as `12:03:11.402 INFO  ddprun: …` to stderr, each with one write(2).
/// `name` says who speaks ("ddprun", "rank=2"). One thread.
std::shared_ptr<Logger> make_stderr_logger(const std::string& name, spdlog::level::level_enum level);

/// A logger that drops everything; for tests.
std::shared_ptr<Logger> make_null_logger();

}  // namespace ddprun
