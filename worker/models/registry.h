#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::models {

/// Adds every model of this folder.
void register_models(ModelRegistry& models);

}  // namespace ddprun::models
