#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// A Python traceback, understood.
struct Traceback {
  std::string exception;  ///< "ValueError: loss is nan": what was raised last, its first line
  std::string message;    ///< the further lines of its text; may be empty
  /// The exception with which a chain began, all its lines: what happened, where `exception` is what was made
  /// of it. The same as both above where there is no chain.
  std::string origin;
  /// Where it was raised, if torch has carried it over from there: "DataLoader worker process 0 (train.py:8,
  /// __getitem__)". The exception is then the one that was raised there.
  std::string place;
  /// For a person: frames of libraries are folded into a line, frames of C++ below a message are left out,
  /// and the middle of what is too long as well.
  std::vector<std::string> shown;
  bool is_fatal = false;  ///< faulthandler's: no exception, the process was about to die of a signal
};

/// Reads what TracebackScanner kept. Pure; nullopt when it is none.
std::optional<Traceback> read_traceback(std::string_view text);

}  // namespace ddprun::launcher
