#include "launcher/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::size_t kTopicWidth = 13;

std::string_view kind_word(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOk:
      return "ok";
    case FindingKind::kNote:
      return "note";
    case FindingKind::kWrong:
      return "WRONG";
  }
  return "";
}

std::string counted(std::ptrdiff_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

std::string_view to_string(FindingKind kind) {
  return kind == FindingKind::kWrong ? "wrong" : kind_word(kind);
}

Finding all_right(std::string topic, std::string state) {
  return {.topic = std::move(topic), .state = std::move(state)};
}
Finding to_note(std::string topic, std::string state, std::string mend) {
  return {FindingKind::kNote, std::move(topic), std::move(state), std::move(mend)};
}
Finding all_wrong(std::string topic, std::string state, std::string mend) {
  return {FindingKind::kWrong, std::move(topic), std::move(state), std::move(mend)};
}

bool is_any_wrong(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& each) { return each.kind == FindingKind::kWrong; });
}

std::string render_findings(const std::vector<Finding>& findings) {
  std::string page;
  for (const Finding& finding : findings) {
    page +=
        fmt::format("{:<6}{:<{}}  {}\n", kind_word(finding.kind), finding.topic, kTopicWidth, finding.state);
    if (!finding.mend.empty()) page += fmt::format("{:<6}{:<{}}  {}\n", "", "", kTopicWidth, finding.mend);
  }
  const auto count = [&](FindingKind kind) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& each) { return each.kind == kind; });
  };
  const auto wrong_ones = count(FindingKind::kWrong);
  const std::string verdict = wrong_ones == 0 ? std::string("nothing is wrong")
                                              : counted(wrong_ones, "thing is wrong", "things are wrong");
  return page +
         fmt::format("\n{}, {} to note\n", verdict, counted(count(FindingKind::kNote), "thing", "things"));
}

}  // namespace ddprun::launcher
