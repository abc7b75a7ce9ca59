#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::launcher {

// What Rich draws around a traceback. It prints the frames in a box, a syntax error's place in a second one
// below, the exception without one, and each member of a group in a box of its own. There may be boxes in a
// box, and pieces of them in the source that it shows; a line of a box begins with its border.

/// Rich draws round or square corners, and ASCII ones where there are no others.
bool opens_box(std::string_view line);
bool closes_box(std::string_view line);
/// One between these, or one of these.
bool is_of_box(std::string_view line);
/// The first of a member of a group.
bool opens_member(std::string_view line);

/// Whether `line` may be the first of an exception: a type, and a colon and its text where it has one.
bool is_exception_line(std::string_view line);

/// Finds where Rich has broken the lines of a text. It does so at the width that its box has as well, between words,
/// whose blank it leaves if there is room, and within those that fill a line. Pure. Where the terminal is wider than
/// the box, breaks within words are not found; where Rich counts two columns for a character, nor are others.
class RichWrap {
 public:
  /// `header` is that of a traceback, whoever printed it.
  void begin(std::string_view header);
  [[nodiscard]] bool is_rich() const { return box_width_ > 0; }

  /// Whether `line` is the rest of the last one taken; always false where it is not Rich that prints.
  [[nodiscard]] bool joins(std::string_view line) const;
  /// What is to stand between them: the blank that had no room.
  [[nodiscard]] std::string_view lost_blank() const { return has_lost_blank_ ? " " : ""; }
  /// `line` is one of the text.
  void read(std::string_view line);

 private:
  std::size_t box_width_ = 0;   // 0: none
  std::size_t open_width_ = 0;  // of the last line, if another may be the rest of it
  bool has_lost_blank_ = false;
};

}  // namespace ddprun::launcher
