#pragma once

#include "launcher/cli/command_line.h"

namespace ddprun::launcher {

/// `ddprun doctor`: prints the page of this machine, or that of several, which meet and probe each other; a host that
/// does not find the others prints its own, with why. As JSON, of this machine alone, it is doctor_json's object.
/// Returns  0, 78 where something is wrong, 71 where stdout does not take it, 64 or 71 where it cannot begin.
/// Blocks   until the page is made; for several hosts that is bounded by their time-out and the probes.
int run_doctor(const DoctorCommand& options);

}  // namespace ddprun::launcher
