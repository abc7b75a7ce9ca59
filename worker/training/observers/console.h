#pragma once

#include "rendezvous/base/clock.h"
#include "worker/training/observers/live_line.h"

#include <string>

namespace ddprun::training {

/// What rank 0 tells the person who started the job: lines on stdout, and on a terminal a live line that is
/// drawn over and never reaches a pipe or a file. Other ranks have one that says nothing.
class Console {
 public:
  enum class Speaker { kRankZero, kSilent };
  /// `progress_mode` is "auto" (live line when stderr is a terminal), "always" or "never".
  Console(Speaker speaker, const std::string& progress_mode, const Clock& clock);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// One line on stdout, at once. Where nobody reads it any more, that is said once, on stderr.
  void line(const std::string& text);
  /// One line on stderr: something the person should know.
  void warning(const std::string& text);
  /// True when `progress` would draw now: at most ten times a second.
  [[nodiscard]] bool wants_progress() const;
  void progress(const LiveLine& live);
  /// Takes the live line away.
  void clear_progress();

 private:
  const Clock& clock_;
  bool speaks_;
  bool is_live_;
  bool is_drawn_ = false;
  bool has_reader_ = true;  ///< stdout
  TimePoint next_draw_{};
};

}  // namespace ddprun::training
