#include "worker/tasks/registry.h"

#include "worker/tasks/classification.h"
#include "worker/tasks/language_modelling.h"
#include "worker/tasks/regression.h"

namespace ddprun::tasks {

void register_tasks(TaskRegistry& tasks) {
  register_classification(tasks);
  register_language_modelling(tasks);
  register_regression(tasks);
}

std::string task_for(const DataShape& data) {
  if (data.classes == 0 || data.tensors.size() < 2) return "regression";
  return data.tensors.at(1).sizes.empty() ? "classification" : "language_modelling";
}

}  // namespace ddprun::tasks
