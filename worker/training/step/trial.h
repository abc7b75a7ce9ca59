#pragma once

#include <ddprun/trainer/batch.h>
#include <ddprun/trainer/model.h>
#include <ddprun/trainer/task.h>

#include <string>

namespace ddprun::training {

/// Two samples of zeros through `model` in evaluation mode and in training mode, and what the task says of them: so
/// that a model or a task that is not ddprun's own, and does not fit the data, is refused in a sentence before
/// anything begins. `model` is not to be used afterwards; the generators are drawn from.
///
/// Errors  Exception kConfig, with the shapes and what libtorch says of them
void try_out(Model& model, const Task& task, const DataShape& data);

/// What is wrong where `model` learns from one sample of zeros; empty: nothing. `model` is not to be used afterwards;
/// the generators are drawn from.
std::string trouble_with_one_sample(Model& model, const DataShape& data);

}  // namespace ddprun::training
