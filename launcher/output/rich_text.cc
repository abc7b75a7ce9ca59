#include "launcher/output/rich_text.h"

#include "launcher/text/text.h"

#include <algorithm>
#include <initializer_list>

namespace ddprun::launcher {
namespace {

bool begins_with_one(std::string_view line, std::initializer_list<std::string_view> borders) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return false;
  return std::any_of(borders.begin(), borders.end(),
                     [&](std::string_view border) { return line.substr(first).starts_with(border); });
}

/// In code points of UTF-8.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; }));
}

bool is_of_name(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || is_digit(c) || (c & '\x80') != 0 || has("_.<>", {&c, 1});
}

}  // namespace

bool opens_box(std::string_view line) { return begins_with_one(line, {"╭", "┌", "+--"}); }

bool closes_box(std::string_view line) { return begins_with_one(line, {"╰", "└", "+--"}); }

bool is_of_box(std::string_view line) {
  return opens_box(line) || closes_box(line) || begins_with_one(line, {"│", "|"});
}

bool opens_member(std::string_view line) { return opens_box(line) && has(line, " Sub-exception #"); }

bool is_exception_line(std::string_view line) {
  const std::string_view type = line.substr(0, std::min(line.find(':'), line.find_last_not_of(' ') + 1));
  return !type.empty() && !is_of_box(line) && std::all_of(type.begin(), type.end(), is_of_name);
}

void RichWrap::begin(std::string_view header) {
  box_width_ = opens_box(header) ? width_of(header) : 0;
  open_width_ = 0;
}

bool RichWrap::joins(std::string_view line) const {
  if (open_width_ == 0 || line.empty() || line[0] == ' ') return false;
  return open_width_ + width_of(line.substr(0, line.find(' '))) > box_width_;
}

void RichWrap::read(std::string_view line) {
  const std::size_t width = is_rich() ? width_of(line) : 0;
  open_width_ = line.ends_with(' ') || width == box_width_ ? width : 0;
  has_lost_blank_ =
      !line.ends_with(' ') && has(line.substr(std::min(line.find_first_not_of(' '), line.size())), " ");
}

}  // namespace ddprun::launcher
