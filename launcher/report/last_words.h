#pragma once

#include "launcher/report/error_file.h"
#include "launcher/report/outcome.h"
#include "launcher/report/traceback.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/exit_status.h"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// All that a worker left to read when it ended.
struct LastWords {
  std::string_view stderr_tail;
  PrintedTraceback traceback{};
  Duration traceback_age{};               ///< how long before its end it was printed, at least
  const ErrorFile* error_file = nullptr;  ///< written in this life of the worker
  std::optional<int> stopped_with{};      ///< the signal we had sent it
  bool traceback_is_late = false;         ///< as in WorkerOutcome
  bool error_file_is_late = false;

  /// The part of `stderr_tail` that was written after the traceback; all of it where there is none.
  [[nodiscard]] std::string_view after_traceback() const;
};

/// Views into both, which outlive it.
LastWords last_words(const WorkerOutcome& worker, const std::optional<ErrorFile>& error_file);

/// What the last exception on a worker's stderr has to do with its end. A program may print one that it has
/// caught, and end of something else hours later.
enum class Bearing {
  kUncaught,    ///< it ended the process, or one of its threads at the end
  kLastWords,   ///< it was printed at the end, and is most likely the reason
  kBeforeKill,  ///< it was printed at the end, but a signal from elsewhere ended the process
  kEarlier,     ///< the process went on after it
};

struct LastException {
  Traceback traceback;
  Bearing bearing = Bearing::kEarlier;
  int lines_after = 0;
  Duration age{};

  [[nodiscard]] bool is_of_this_end() const {
    return bearing == Bearing::kUncaught || bearing == Bearing::kLastWords;
  }
};

/// Pure; nullopt where there is none. Judged by who printed it (a hook that sees only what nobody has caught,
/// or anybody), by what was printed after it, by how long before the end, and by the exit code: Python's is 1
/// after an exception.
std::optional<LastException> last_exception(const ExitStatus& status, const LastWords& words);

/// "12 lines before its end", "5 min 10 s before its end"; empty where nothing came in between.
std::string how_much_earlier(const LastException& exception);

}  // namespace ddprun::launcher
