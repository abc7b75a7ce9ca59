#pragma once

#include <ddprun/trainer/registry.h>

namespace ddprun::data {

/// Adds every data source of this folder.
void register_data_sources(DataRegistry& sources);

}  // namespace ddprun::data
