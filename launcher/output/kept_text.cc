#include "launcher/output/kept_text.h"

namespace ddprun::launcher {

void KeptText::add(std::string_view text) {
  copied_ += text.size();
  text_ += text;
  if (text_.size() <= kLongest) return;
  // The outermost frames and the end: what lies between is a recursion or a very deep library. A quarter is
  // left out at least, so that a byte is moved few times.
  constexpr std::string_view kLinesGap = "\n  ...\n";
  const std::size_t head_end = text_.rfind('\n', kLongest / 4);
  const std::size_t tail_begin = text_.find('\n', text_.size() - kLongest / 2);
  if (head_end == std::string::npos || tail_begin == std::string::npos) {
    text_.erase(0, text_.size() - kLongest / 2);
  } else {
    text_.replace(head_end, tail_begin + 1 - head_end, kLinesGap);
  }
  copied_ += text_.size();
}

void KeptText::add_to_last_line(std::string_view between, std::string_view line) {
  if (text_.ends_with('\n')) text_.pop_back();
  add(between);
  add_line(line);
}

void KeptText::add_line(std::string_view line) {
  add(line);
  add("\n");
}

}  // namespace ddprun::launcher
