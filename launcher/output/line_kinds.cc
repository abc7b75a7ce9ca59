#include "launcher/output/line_kinds.h"

#include "launcher/text/text.h"

#include <algorithm>
#include <array>
#include <span>

namespace ddprun::launcher {
namespace {

bool starts_with_any(std::string_view line, std::span<const std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view s) { return line.starts_with(s); });
}

}  // namespace

bool is_chain_mark(std::string_view line) {
  return has(line, "The above exception was the direct cause of the following exception") ||
         has(line, "During handling of the above exception, another exception occurred");
}

bool is_syntax_error(std::string_view line) {
  constexpr std::array<std::string_view, 3> kStarts{"SyntaxError", "IndentationError", "TabError"};
  return starts_with_any(line, kStarts);
}

bool is_indented_or_blank(std::string_view line) {
  return line.empty() || line[0] == ' ' || line[0] == '\t' || line.find_first_not_of(" \t\r") == line.npos;
}

bool is_of_fault(std::string_view line) {
  constexpr std::array<std::string_view, 6> kStarts{"Thread 0x", "Current thread", "Stack (most recent", "<",
                                                    "...",       kExtensionModules};
  return is_indented_or_blank(line) || starts_with_any(line, kStarts);
}

bool is_log_line(std::string_view line) {
  constexpr std::array<std::string_view, 4> kAsyncio{"Task exception was never retrieved", "future: <",
                                                     "task: <", "Unhandled exception in event loop"};
  constexpr std::array<std::string_view, 4> kLevels{"ERROR", "WARNING", "CRITICAL", "INFO"};
  const auto is_level = [&](std::string_view level) {
    const std::size_t at = line.find(level);
    if (at == std::string_view::npos) return false;
    const char before = at == 0 ? ' ' : line[at - 1];
    const char after = at + level.size() < line.size() ? line[at + level.size()] : ' ';
    return has(" [|:", {&before, 1}) && has(" ]|:", {&after, 1});
  };
  return starts_with_any(line, kAsyncio) || std::any_of(kLevels.begin(), kLevels.end(), is_level);
}

bool is_glog(std::string_view line) {
  return line.size() > 2 && line[0] == '[' &&
         std::string_view("IWEF").find(line[1]) != std::string_view::npos && line[2] >= '0' && line[2] <= '9';
}

bool is_progress_bar(std::string_view line) {
  return has(line, "%|") || has(line, "it/s") || has(line, "s/it");
}

bool is_exit_noise(std::string_view line) {
  constexpr std::array<std::string_view, 11> kStarts{"terminate called",
                                                     "Task exception was never retrieved",
                                                     "future: <",
                                                     "Exception ignored in",
                                                     "Error in atexit",
                                                     "Error in sys.excepthook",
                                                     "wandb:",
                                                     "frame #",
                                                     "Exception raised from ",
                                                     "C++ CapturedTraceback:",
                                                     "Exception in thread"};
  const bool is_warning = has(line, ".py:") && has(line, "Warning: ");
  return is_glog(line) || is_warning || starts_with_any(line, kStarts);
}

}  // namespace ddprun::launcher
