#include "launcher/doctor/machine.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::launcher {

std::string doctor_json(const MachineFacts& machine, const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  const auto count = [&](FindingKind kind) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& each) { return each.kind == kind; });
  };
  Json told{{"host", machine.hostname}, {"kernel", machine.kernel}, {"findings", Json::array()}};
  for (const Finding& finding : findings) {
    Json one{{"kind", to_string(finding.kind)}, {"topic", finding.topic}, {"state", finding.state}};
    if (!finding.mend.empty()) one["mend"] = finding.mend;
    told["findings"].push_back(std::move(one));
  }
  told["wrong"] = count(FindingKind::kWrong);
  told["to_note"] = count(FindingKind::kNote);
  return told.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
