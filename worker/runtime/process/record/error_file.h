#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::runtime {

/// A text in memory that was there before anything went wrong: appending allocates nothing, what does not fit
/// is cut between two characters.
class FixedText {
 public:
  void append(std::string_view text);
  /// As the inside of a JSON string; bytes that are no UTF-8, which JSON has to be, become U+FFFD.
  void append_json(std::string_view text);
  void append_number(unsigned long long number);
  void clear() { size_ = 0; }
  [[nodiscard]] std::string_view view() const { return {bytes_, size_}; }

 private:
  static constexpr std::size_t kCapacity = 64 * 1024;
  char bytes_[kCapacity] = {};
  std::size_t size_ = 0;
};

/// Fills `out` with the error file of torchrun's contract: {"message": {"message": …, "extraInfo":
/// {"py_callstack": …, "timestamp": "seconds"}}}. The stack ends with the message, as a Python traceback
/// does: it is all that torchrun's report shows. Safe in a signal handler.
void format_error_file(std::string_view message, std::string_view stack, unsigned long long unix_seconds,
                       FixedText& out);

/// Replaces the file's content. Safe in a signal handler. An empty path does nothing.
void write_error_file(const char* path, std::string_view content);

}  // namespace ddprun::runtime
