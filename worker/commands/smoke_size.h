#pragma once

#include "worker/commands/smoke_data.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddprun::commands {

/// A job made so small that all it does can be tried in seconds.
struct SmallJob {
  std::vector<std::string> settings;  ///< "/train/epochs=6": on top of the job's own
  SmokeSamples samples;               ///< how many samples it reads
};

/// Of a checked job file, on so many processes. Nothing grows but virtual ranks to two on each, and nothing that the
/// job does is left out. Pure.
SmallJob make_small(const nlohmann::json& job, int processes);

/// The settings for one of its data objects, at `pointer`: a trial asks nothing of the network, and leaves nothing
/// beside data. Pure.
std::vector<std::string> offline_settings(const std::string& pointer, const nlohmann::json& data);

}  // namespace ddprun::commands
