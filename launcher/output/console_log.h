#pragma once

#include "launcher/output/output.h"
#include "rendezvous/base/log.h"

#include <memory>

namespace ddprun::launcher {

/// A logger whose lines go through the job's console, so that a stuck terminal never holds up the launcher.
/// `output` outlives it.
std::shared_ptr<Logger> make_console_logger(JobOutput& output, spdlog::level::level_enum level);

}  // namespace ddprun::launcher
