#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

enum class FindingKind {
  kOk,
  kNote,  ///< may be meant
  kWrong,
};

/// "ok", "note" or "wrong".
std::string_view to_string(FindingKind kind);

/// One line of a page of `ddprun doctor`.
struct Finding {
  FindingKind kind = FindingKind::kOk;
  std::string topic;
  std::string state;
  std::string mend{};  ///< what is wrong about it and how to mend it; empty: nothing
};

Finding all_right(std::string topic, std::string state);
Finding to_note(std::string topic, std::string state, std::string mend = {});
Finding all_wrong(std::string topic, std::string state, std::string mend);

bool is_any_wrong(const std::vector<Finding>& findings);

/// The lines for a person, and how many of them are wrong or to note. Pure.
std::string render_findings(const std::vector<Finding>& findings);

}  // namespace ddprun::launcher
