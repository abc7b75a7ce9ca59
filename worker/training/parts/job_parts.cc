#include "worker/training/parts/job_parts.h"

#include "worker/data/registry.h"
#include "worker/models/registry.h"
#include "worker/tasks/registry.h"

namespace ddprun::training {

JobParts built_in_parts() {
  JobParts parts;
  models::register_models(parts.models);
  data::register_data_sources(parts.data);
  tasks::register_tasks(parts.tasks);
  register_optimizers(parts.optimizers);
  register_decays(parts.schedules);
  return parts;
}

}  // namespace ddprun::training
