#include "launcher/output/remote_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

// Beyond any local rank, so that a node's stream is a writer of its own.
constexpr Console::Writer kFirstRemote = 1 << 20;

Console::Writer writer_of(ConnectionId connection, bool is_stderr) {
  return kFirstRemote + static_cast<Console::Writer>(connection.value() % kFirstRemote) * 2 +
         (is_stderr ? 1 : 0);
}

std::uint64_t count_lines(std::string_view text) {
  const auto ends = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  return text.empty() || text.back() == '\n' ? ends : ends + 1;
}

}  // namespace

void RemoteLines::show(ConnectionId connection, const std::string& node, bool is_stderr,
                       std::string_view text, std::uint64_t missing_before) {
  Console& console = is_stderr ? err_ : out_;
  if (console.backlog_bytes() + text.size() > kMostBacklog) {
    dropped_[node] += missing_before + count_lines(text);
    return;
  }
  finish();
  if (missing_before > 0)
    say_missing(node, missing_before, "came faster than the connection takes them, or it was lost");
  console.write(writer_of(connection, is_stderr), text);
}

void RemoteLines::finish() {
  for (const auto& [node, count] : std::exchange(dropped_, {})) {
    say_missing(node, count, "came faster than this console takes them");
  }
}

void RemoteLines::say_missing(const std::string& node, std::uint64_t count, const char* why) {
  err_.write(Console::kLauncher,
             fmt::format("ddprun: {} line{} of {} {} missing here: {} {}\n", count, count == 1 ? "" : "s",
                         node, count == 1 ? "is" : "are", count == 1 ? "it" : "they", why));
}

}  // namespace ddprun::launcher
