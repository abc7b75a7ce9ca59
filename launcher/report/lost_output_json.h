#pragma once

#include "launcher/output/lost_output.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddprun::launcher {

/// A text that may be unknown: null where it is empty.
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

/// "lost_output" of report.json and of the event job_ended: one object for each place.
inline nlohmann::ordered_json lost_output_json(const std::vector<LostOutput>& losses) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LostOutput& lost : losses)
    list.push_back({{"where", lost.where}, {"bytes", lost.bytes}, {"why", lost.why}});
  return list;
}

}  // namespace ddprun::launcher
