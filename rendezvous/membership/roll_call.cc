#include "rendezvous/membership/roll_call.h"

#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <utility>

namespace ddprun::membership {
namespace {

constexpr std::size_t kNamesInMessage = 8;

}  // namespace

std::string join_names(std::vector<std::string> names) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesInMessage));
  std::partial_sort(
      names.begin(), names.begin() + shown, names.end(),
      [](const std::string& a, const std::string& b) { return ::strverscmp(a.c_str(), b.c_str()) < 0; });
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamesInMessage; ++i) {
    if (i > 0) text += ", ";
    text += names[i];
  }
  if (names.size() > kNamesInMessage) text += fmt::format(" and {} more", names.size() - kNamesInMessage);
  return text;
}

std::string to_sentence(RollCall roll) {
  const std::string wanted = roll.min_nodes < roll.max_nodes
                                 ? fmt::format("{} to {}", roll.min_nodes, roll.max_nodes)
                                 : fmt::format("{}", roll.max_nodes);
  const std::size_t count = roll.here.size();
  std::string text = fmt::format("{} of {} nodes are here", count, wanted);
  if (count > 0) text += ": " + join_names(std::move(roll.here));
  if (!roll.missing.empty()) text += fmt::format("; missing: {}", join_names(std::move(roll.missing)));
  if (!roll.stopping.empty()) {
    text += fmt::format("; still stopping their workers: {}", join_names(std::move(roll.stopping)));
  }
  if (roll.fence > Duration::zero()) {
    text += fmt::format("; within {} the workers of a lost node are certain to be gone",
                        format_duration(roll.fence));
  }
  return text;
}

}  // namespace ddprun::membership
