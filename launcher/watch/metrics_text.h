#pragma once

#include "launcher/watch/sample.h"

#include <string>

namespace ddprun::launcher::watch {

/// The text format of Prometheus, version 0.0.4. Pure.
std::string metrics_text(const JobSample& now);

}  // namespace ddprun::launcher::watch
