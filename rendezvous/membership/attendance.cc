#include "rendezvous/membership/attendance.h"

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

std::string to_sentence(Attendance attendance) {
  const std::string wanted = attendance.min_nodes < attendance.max_nodes
                                 ? fmt::format("{} to {}", attendance.min_nodes, attendance.max_nodes)
                                 : fmt::format("{}", attendance.max_nodes);
  const std::size_t count = attendance.here.size();
  std::string text = fmt::format("{} of {} nodes are here", count, wanted);
  if (count > 0) text += ": " + join_names(std::move(attendance.here));
  if (!attendance.missing.empty())
    text += fmt::format("; missing: {}", join_names(std::move(attendance.missing)));
  if (!attendance.stopping.empty()) {
    text += fmt::format("; still stopping their workers: {}", join_names(std::move(attendance.stopping)));
  }
  if (attendance.fence > Duration::zero()) {
    text += fmt::format("; within {} the workers of a lost node are certain to be gone",
                        format_duration(attendance.fence));
  }
  return text;
}

}  // namespace ddprun::membership
