#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Cuts a stream of bytes into blocks of whole lines, so that lines of several workers can share a console
/// untorn. Pure. A line ends with '\n'; in carriage-return mode also with a '\r' that no '\n' follows, so
/// that progress bars move on. Bytes are never changed, dropped or reordered: what comes out is what went in.
class LineCutter {
 public:
  enum class Ends { kNewline, kNewlineOrReturn };

  /// A line longer than this is let out in pieces, so that memory stays bounded.
  static constexpr std::size_t kLongestHeld = 256 * 1024;

  explicit LineCutter(Ends ends) : ends_(ends) {}

  /// Takes `data` and calls `emit(block)` with everything that is complete now, in one or two pieces.
  template <class Emit>
  void feed(std::string_view data, Emit emit) {
    const std::size_t cut = complete_prefix(data);
    if (cut == 0) {
      held_.append(data);
      if (held_.size() > kLongestHeld) flush(emit);
      return;
    }
    if (!held_.empty()) {
      // Only the rest of the held line is copied, not the whole block.
      const std::size_t rest = data.find('\n') < cut ? data.find('\n') + 1 : cut;
      held_.append(data.substr(0, rest));
      flush(emit);
      if (rest < cut) emit(data.substr(rest, cut - rest));
    } else {
      emit(data.substr(0, cut));
    }
    held_.assign(data.substr(cut));
  }

  /// Lets the incomplete line out: at the end of the stream, or when a prompt has waited long enough.
  template <class Emit>
  void flush(Emit emit) {
    if (held_.empty()) return;
    emit(std::string_view(held_));
    held_ = std::string();  // its memory, too
  }

  [[nodiscard]] bool is_holding() const { return !held_.empty(); }

 private:
  // How many bytes of `data` end in a line end.
  [[nodiscard]] std::size_t complete_prefix(std::string_view data) const {
    const std::size_t newline = data.rfind('\n');
    std::size_t cut = newline == std::string_view::npos ? 0 : newline + 1;
    if (ends_ == Ends::kNewlineOrReturn && data.size() >= 2) {
      // The last byte is left out: a '\r' there may be half of "\r\n".
      const std::size_t carriage = data.rfind('\r', data.size() - 2);
      if (carriage != std::string_view::npos && carriage + 1 > cut && data[carriage + 1] != '\n')
        cut = carriage + 1;
    }
    return cut;
  }

  Ends ends_;
  std::string held_;
};

}  // namespace ddprun::launcher
