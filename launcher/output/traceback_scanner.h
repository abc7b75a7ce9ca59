#pragma once

#include "launcher/output/kept_text.h"
#include "launcher/output/plain_line.h"
#include "launcher/output/rich_text.h"
#include "rendezvous/base/clock.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The last whole traceback on a stderr stream, and what followed it there.
struct PrintedTraceback {
  enum class By {
    kAnybody,      ///< a program may print one of what it has caught, and go on
    kThread,       ///< the hook that Python calls when an exception ends a thread
    kInterpreter,  ///< PyTorch's, which Python calls when an exception ends the program
  };
  std::string text{};  ///< in plain lines; empty: there was none
  By by = By::kAnybody;
  std::uint64_t bytes_after = 0;
  /// Of what followed, the lines that a program on its way out does not print.
  int lines_after = 0;
  TimePoint at{};  ///< when its exception was read
};

/// Keeps the last whole traceback of a stderr stream while it passes, so that nothing printed afterwards
/// pushes it out. Pure; takes no memory until there is one, and then at most kLongest bytes for each of six;
/// of a longer line than 12 KiB both ends. Its time is that of the bytes, whatever they are: nothing that was
/// kept is copied again because more has come.
///
/// Knows  Python's tracebacks, plain, of a thread, of an exception group and of a syntax error, chains of
///        them, the same behind the `[rank1]: ` that PyTorch's hook puts before each line, or behind a record
///        of its log (printed like any other: the program has caught it), Rich's (whose broken lines are put
///        together again) and loguru's, with or without colours, and what faulthandler prints. What Python
///        only mentions ("Exception ignored in") is passed over. The text of an exception goes on for some
///        seconds: where no prefix shows it, for as long as its lines are indented or blank.
class TracebackScanner {
 public:
  static constexpr std::size_t kLongest = KeptText::kLongest;

  void feed(std::string_view bytes, TimePoint now = {});

  /// The last whole traceback so far. One of a thread is given only where no other is, or
  /// where a program has gone on for long after what it has printed of another; and one that a program
  /// on its way out has logged, or printed after the hook, does not take the place of what it leaves with.
  [[nodiscard]] PrintedTraceback last() const;

  /// How many bytes were moved for all that was fed: a few times as many at most.
  [[nodiscard]] std::uint64_t copied_bytes() const;

 private:
  enum class State { kOutside, kFrames, kBox, kMessage, kMember };
  /// kHook: by PyTorch's excepthook; kLogged: behind the line of a log; kNoise: only mentioned.
  enum class Kind { kMain, kHook, kLogged, kThread, kNoise };
  struct Found {
    KeptText text;
    PrintedTraceback::By by = PrintedTraceback::By::kAnybody;
    TimePoint at{};         // when its exception was read
    std::uint64_t end = 0;  // the stream's position behind its last line
    int lines = 0;          // counted so far
    int bars = 0;
  };

  void read_line(std::string_view raw);
  void begin(const PlainLine& line);
  [[nodiscard]] bool is_message(const PlainLine& line) const;
  void commit();
  void add_text(KeptText& text, std::string_view line);
  void add_to_message(std::string_view line);
  void reach(Found& whole) const;
  [[nodiscard]] Found& found();
  [[nodiscard]] const Found& of(Kind kind) const { return found_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const Found& best() const;
  void count(std::string_view raw, std::string_view plain);

  std::string partial_;  // the line being written
  State state_ = State::kOutside;
  Kind kind_ = Kind::kMain;       // of the traceback being read
  Kind next_kind_ = Kind::kMain;  // what the line before announces
  std::string prefix_;            // before each of its lines
  RichWrap rich_;
  bool is_header_last_ = false;  // nothing of it has followed its first line
  bool is_syntax_ = false;       // without a header
  bool has_chain_mark_ = false;
  bool is_fatal_ = false;
  bool is_aborting_ = false;  // "terminate called" was the last that is of interest
  bool continues_ = false;    // the one found: a chain
  KeptText pending_;          // of the one being read, until its exception makes it whole
  int message_lines_ = 0;
  std::size_t message_bytes_ = 0;
  std::uint64_t copied_ = 0;
  std::uint64_t position_ = 0;
  TimePoint now_{};
  int lines_ = 0;               // since the first traceback: those of a program that goes on
  int bars_ = 0;                // the states of progress bars
  std::string before_;          // the beginning of the last line that was counted
  std::array<Found, 5> found_;  // the last of each kind
};

}  // namespace ddprun::launcher
