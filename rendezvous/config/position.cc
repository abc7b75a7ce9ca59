#include "rendezvous/config/position.h"

#include <algorithm>

namespace ddprun::config {
namespace {

/// Offset of the first byte of the line that holds `offset`.
std::size_t line_begin(std::string_view text, std::size_t offset) {
  if (offset == 0) return 0;
  const std::size_t newline = text.rfind('\n', offset - 1);
  return newline == std::string_view::npos ? 0 : newline + 1;
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

}  // namespace

Position PositionWalk::advance_to(std::size_t offset) {
  for (offset = std::min(offset, text_.size()); at_ < offset; ++at_) {
    if (text_[at_] == '\n') {
      place_ = {.line = place_.line + 1, .column = 1};
    } else if (begins_character(text_[at_])) {
      ++place_.column;
    }
  }
  return place_;
}

Position position_of(std::string_view text, std::size_t offset) {
  return PositionWalk(text).advance_to(offset);
}

std::string_view line_of(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::size_t begin = line_begin(text, offset);
  std::string_view line = text.substr(begin, text.find('\n', offset) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace ddprun::config
