#pragma once

#include <ddprun/trainer/registry.h>

#include <string>

namespace ddprun::tasks {

/// Adds every task of this folder.
void register_tasks(TaskRegistry& tasks);

/// The task that suits such data: what "auto" in a job file stands for. Classes for each sample are
/// classification, classes for each of its tokens language modelling, numbers regression.
std::string task_for(const DataShape& data);

}  // namespace ddprun::tasks
