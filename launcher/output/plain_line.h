#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Begins a traceback of Python.
inline constexpr std::string_view kTracebackHeader = "Traceback (most recent call last)";

/// A line as its writer meant it: without colours, without what PyTorch's hook ("[rank1]: ") or log
/// ("[rank1]:W1122 00:36:44.057000 26532 x.py:7] ") puts before it, and only what follows the last carriage
/// return.
class PlainLine {
 public:
  explicit PlainLine(std::string_view line);
  PlainLine(const PlainLine&) = delete;
  PlainLine& operator=(const PlainLine&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }
  /// What was before it, without the blank at the end; may be empty.
  [[nodiscard]] std::string_view prefix() const { return prefix_; }
  /// Whether that is the hook's.
  [[nodiscard]] bool is_hook() const { return is_hook_; }

 private:
  std::string storage_;  // where bytes had to be left out
  std::string_view text_;
  std::string_view prefix_;
  bool is_hook_ = false;
};

/// The same without the margins of exception groups ("  | ", "+ ") and of Rich's boxes. Pure.
std::string_view without_margin(std::string_view plain);

}  // namespace ddprun::launcher
