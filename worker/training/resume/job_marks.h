#pragma once

#include "worker/training/state/timeline.h"
#include <ddprun/init.h>

namespace ddprun::training {

/// Of this job, from its ranks' environments: those of rank 0, and of every rank what has started it. Collective.
JobMarks marks_of(const Context& context);

}  // namespace ddprun::training
