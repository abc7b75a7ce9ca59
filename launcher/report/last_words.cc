#include "launcher/report/last_words.h"

#include "launcher/text/text.h"
#include "rendezvous/base/format_duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>

namespace ddprun::launcher {
namespace {

// Time for a program to clean up after what it has caught and printed.
constexpr Duration kRecent = std::chrono::seconds(60);
// Exit noise that nobody knows, or further lines of the exception's own text.
constexpr int kFewLines = 20;
// The same after one that the interpreter printed, as long as it is recent.
constexpr int kManyLines = 100;

/// By faulthandler; Python's own fatal errors end with SIGABRT.
bool is_handled(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
}

Bearing bearing_of(const ExitStatus& status, const LastWords& words, const Traceback& traceback) {
  using By = PrintedTraceback::By;
  const PrintedTraceback& printed = words.traceback;
  // Python that leaves with an exception may be ended by abort() in a destructor of C++.
  const bool is_abort = status.is_killed() && status.signal() == SIGABRT;
  const bool is_killed_by_others = status.is_killed() && words.stopped_with != status.signal();
  const bool is_recent = words.traceback_age <= kRecent;
  if (traceback.is_fatal) {
    // It may be a data loader's, of long ago.
    const bool is_near = is_recent && printed.lines_after <= kFewLines;
    return is_killed_by_others && is_near && is_handled(status.signal()) ? Bearing::kUncaught
                                                                         : Bearing::kEarlier;
  }
  const bool is_by_hook = printed.by != By::kAnybody;
  const bool is_last = printed.lines_after == 0 && (is_by_hook || is_recent);
  // A shell, or a thread, may have gone on after it for long.
  const bool is_leaving_with_it =
      printed.by == By::kInterpreter && printed.lines_after <= (is_recent ? kManyLines : kFewLines);
  if (is_killed_by_others && !is_abort)
    return is_last || is_leaving_with_it ? Bearing::kBeforeKill : Bearing::kEarlier;
  const bool is_pythons_code = !status.is_killed() && status.code() == 1;
  const bool was_leaving = is_pythons_code || is_abort || words.stopped_with.has_value();
  if (is_last) return is_by_hook || is_pythons_code || is_abort ? Bearing::kUncaught : Bearing::kLastWords;
  // What follows one that the interpreter printed is noise of any kind.
  if (is_leaving_with_it && was_leaving) return Bearing::kUncaught;
  const bool is_near = printed.lines_after <= kFewLines && is_recent;
  // Who was told to end may have worked until then.
  const bool stopped_itself = is_pythons_code && !words.stopped_with;
  return is_near && (stopped_itself || is_by_hook) ? Bearing::kLastWords : Bearing::kEarlier;
}

}  // namespace

std::string_view LastWords::after_traceback() const {
  if (traceback.text.empty()) return stderr_tail;
  const std::size_t after = std::min<std::uint64_t>(traceback.bytes_after, stderr_tail.size());
  return stderr_tail.substr(stderr_tail.size() - after);
}

LastWords last_words(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file) {
  return {.stderr_tail = worker.stderr_tail,
          .traceback = worker.traceback,
          .traceback_age = std::max(worker.ended_at - worker.traceback.at, Duration::zero()),
          .error_file = error_file ? &*error_file : nullptr,
          .stopped_with = worker.stopped_with,
          .traceback_is_late = worker.traceback_is_late,
          .error_file_is_late = worker.error_file_is_late};
}

std::optional<LastException> last_exception(const ExitStatus& status, const LastWords& words) {
  std::optional<Traceback> traceback = read_traceback(words.traceback.text);
  if (!traceback) return std::nullopt;
  const Bearing bearing = bearing_of(status, words, *traceback);
  return LastException{std::move(*traceback), bearing, words.traceback.lines_after, words.traceback_age};
}

std::string how_much_earlier(const LastException& exception) {
  const int lines = exception.lines_after;
  if (lines > 0) return fmt::format("{} line{} before its end", lines, lines == 1 ? "" : "s");
  return exception.age > kRecent ? format_duration(exception.age) + " before its end" : std::string();
}

}  // namespace ddprun::launcher
