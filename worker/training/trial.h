#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/task.h>

namespace ddprun::training {

/// One forward, in evaluation mode, of two samples of zeros, and what the task says of it: so that a model or a
/// task that is not ddprun's own, and does not fit the data, is refused in a sentence before anything begins.
/// Draws no random numbers that a training would draw.
///
/// Errors  Exception kConfig, with the shapes and what libtorch says of them
void try_out(Model& model, const Task& task, const DataShape& data);

}  // namespace ddprun::training
