#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// A line as its writer meant it: without colours, without the "[rank1]: " of PyTorch, and only what follows
/// the last carriage return.
class PlainLine {
 public:
  explicit PlainLine(std::string_view line);
  PlainLine(const PlainLine&) = delete;
  PlainLine& operator=(const PlainLine&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] bool has_rank() const { return has_rank_; }

 private:
  std::string storage_;  // where bytes had to be left out
  std::string_view text_;
  bool has_rank_ = false;
};

/// Keeps the last whole traceback of a stderr stream while it passes, so that nothing printed afterwards
/// pushes it out. Pure; takes no memory until there is one, and then at most kLongest bytes for each of two.
///
/// Knows  Python's tracebacks, plain, of a thread, of an exception group and of a syntax error, chains of
/// them, the
///        same behind the `[rank1]: ` that PyTorch puts before each line, Rich's and loguru's, with or
///        without colours, and what faulthandler prints. What Python only mentions ("Exception ignored in")
///        is passed over.
class TracebackScanner {
 public:
  static constexpr std::size_t kLongest = 48 * 1024;

  void feed(std::string_view bytes);

  /// The last whole traceback so far, in plain lines; empty when there was none. One of a thread is given
  /// only where no other is.
  [[nodiscard]] std::string last() const;
  /// How many bytes came after its end.
  [[nodiscard]] std::uint64_t bytes_since() const;

 private:
  enum class State { kOutside, kFrames, kBox, kMessage };
  enum class Kind { kMain, kThread, kNoise };
  struct Found {
    std::string text;
    std::uint64_t end = 0;  // the stream's position behind its last line
  };

  void take_line(std::string_view raw);
  void begin(const PlainLine& line);
  void keep(std::string_view line);
  void commit();
  [[nodiscard]] const Found& best() const;

  std::string partial_;  // the line being written
  State state_ = State::kOutside;
  Kind kind_ = Kind::kMain;       // of the traceback being read
  Kind next_kind_ = Kind::kMain;  // what the line before announces
  bool is_prefixed_ = false;      // "[rank1]: " before each line
  bool has_chain_mark_ = false;
  int message_lines_ = 0;
  std::string current_;
  std::uint64_t position_ = 0;
  Found main_;
  Found thread_;
};

/// The same without the margins of exception groups ("  | ", "+ ") and of Rich's boxes. Pure.
std::string_view without_margin(std::string_view plain);

}  // namespace ddprun::launcher
