#pragma once

#include "launcher/process/lost_output.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace ddprun::launcher {

/// "lost_output" of report.json and of the event job_ended: one object for each place.
inline nlohmann::ordered_json lost_output_json(const std::vector<LostOutput>& losses) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LostOutput& lost : losses)
    list.push_back({{"where", lost.where}, {"bytes", lost.bytes}, {"why", lost.why}});
  return list;
}

}  // namespace ddprun::launcher
