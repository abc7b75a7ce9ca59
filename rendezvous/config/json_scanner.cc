#include "rendezvous/config/json_scanner.h"

#include "rendezvous/config/problem.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace ddprun::config {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '+' || c == '.';
}

/// One pass of recursive descent; every method returns false once `problem` is set.
class Scanner {
 public:
  Scanner(std::string_view text, JsonOffsets& offsets) : text_(text), offsets_(offsets) {}

  std::optional<SyntaxProblem> run() {
    skip_space();
    offsets_.set_root(at_);
    if (value(0)) {
      skip_space();
      if (at_ < text_.size())
        fail(fmt::format("expected the end of the file after the value, found {}", found()));
    }
    // A text that ends too early is shown at its last word, not behind its last newline.
    if (problem_ && problem_->offset == text_.size())
      problem_->offset = text_.find_last_not_of(" \t\r\n") + 1;
    return std::move(problem_);
  }

 private:
  bool fail_at(std::size_t offset, std::string message) {
    problem_ = SyntaxProblem{.offset = offset, .message = std::move(message)};
    return false;
  }
  bool fail(std::string message) { return fail_at(at_, std::move(message)); }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }

  /// The word or character at the cursor.
  [[nodiscard]] std::string_view token() const {
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(at_, end > at_ ? end - at_ : 1);
  }

  /// What stands at the cursor, for "…, found X".
  [[nodiscard]] std::string found() const {
    if (at_ >= text_.size()) return "the end of the file";
    const char c = peek();
    if (c == '"') {
      const std::size_t end = text_.find_first_of("\"\n", at_ + 1);
      return std::string(text_.substr(at_, end == std::string_view::npos ? end : end + 1 - at_));
    }
    if (c == '/' || c == '#') return fmt::format("'{}' (a comment begins with //)", c);
    if (c == '\'') return "a single quote (JSON strings stand in double quotes)";
    if (static_cast<unsigned char>(c) < 0x20)
      return fmt::format("the control character 0x{:02x}", static_cast<int>(c));
    if (static_cast<unsigned char>(c) >= 0x80) return "a character outside any string";
    return fmt::format("'{}'", token());
  }

  /// The value at the cursor.
  bool value(int depth) {
    if (depth > kMaxDepth) return fail(fmt::format("nested deeper than {} levels", kMaxDepth));
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string(nullptr);
      default:
        return peek() == '-' || is_digit(peek()) ? number() : literal();
    }
  }

  bool object(int depth) {
    const std::size_t begin = at_++;
    skip_space();
    if (peek() == '}') return ++at_, true;
    while (true) {
      if (!member(begin, depth)) return false;
      skip_space();
      if (peek() == '}') return ++at_, true;
      if (peek() != ',') return fail(fmt::format("expected ',' or '}}' after a value, found {}", found()));
      ++at_;
      skip_space();
      if (peek() == '}')
        return fail("expected a key after ',', found '}' (JSON allows no comma after the last value)");
    }
  }

  bool member(std::size_t object, int depth) {
    const std::size_t key_at = at_;
    if (peek() != '"') return fail(fmt::format("expected a key in double quotes, found {}", found()));
    std::string key;
    if (!string(&key)) return false;
    JsonOffsets::Place* const place = offsets_.add_member(object, key);
    if (place == nullptr)
      return fail_at(key_at, fmt::format("the key \"{}\" stands twice in this object", key));
    skip_space();
    if (peek() != ':') return fail(fmt::format("expected ':' after the key \"{}\", found {}", key, found()));
    ++at_;
    skip_space();
    *place = {.value = at_, .key = key_at};
    return value(depth + 1);
  }

  bool array(int depth) {
    const std::size_t begin = at_++;
    skip_space();
    if (peek() == ']') return ++at_, true;
    while (true) {
      offsets_.add_element(begin, at_);
      if (!value(depth + 1)) return false;
      skip_space();
      if (peek() == ']') return ++at_, true;
      if (peek() != ',') return fail(fmt::format("expected ',' or ']' after a value, found {}", found()));
      ++at_;
      skip_space();
      if (peek() == ']')
        return fail("expected a value after ',', found ']' (JSON allows no comma after the last value)");
    }
  }

  /// A string; its content goes to `content` where that is wanted.
  bool string(std::string* content) {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && peek() != '"') {
      if (static_cast<unsigned char>(peek()) < 0x20) return refuse_control_character(begin);
      if (peek() == '\\' && !escape()) return false;
      ++at_;
    }
    if (at_ >= text_.size()) return fail_at(begin, "the string that begins here never ends");
    ++at_;
    if (content != nullptr) *content = decoded(text_.substr(begin, at_ - begin));
    return true;
  }

  /// In the string that begins there: it ends the line, or stands in it as it is.
  bool refuse_control_character(std::size_t begin) {
    const std::string_view rest = text_.substr(at_, text_.find_first_of("\r\n", at_) - at_);
    if (rest.find('"') == std::string_view::npos)
      return fail_at(begin, "the string that begins here does not end on its line");
    return fail(fmt::format("a control character; in a string it is written {}",
                            peek() == '\t' ? "\\t" : fmt::format("\\u{:04x}", static_cast<int>(peek()))));
  }

  /// Leaves the cursor on the last character of an escape sequence.
  bool escape() {
    const std::size_t begin = at_++;
    if (std::string_view("\"\\/bfnrt").find(peek()) != std::string_view::npos && at_ < text_.size())
      return true;
    if (peek() != 'u')
      return fail_at(begin, "this is no escape sequence of JSON; a backslash itself is written \\\\");
    for (int digit = 0; digit < 4; ++digit) {
      ++at_;
      if (std::string_view("0123456789abcdefABCDEF").find(peek()) == std::string_view::npos ||
          at_ >= text_.size()) {
        return fail_at(begin, "expected four hexadecimal digits after \\u");
      }
    }
    return true;
  }

  /// The content of a quoted string, escapes resolved; as written where the library finds it broken (it will
  /// say so).
  static std::string decoded(std::string_view quoted) {
    const nlohmann::json parsed = nlohmann::json::parse(quoted, nullptr, false);
    return parsed.is_string() ? parsed.get<std::string>() : std::string(quoted.substr(1, quoted.size() - 2));
  }

  bool digits() {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ > begin;
  }

  bool number() {
    const std::size_t begin = at_;
    const std::string_view word = token();
    const auto refuse = [&](std::string_view why) {
      return fail_at(begin, fmt::format("'{}' is no JSON number: {}", word, why));
    };
    if (peek() == '-') ++at_;
    const std::size_t first = at_;
    if (!digits()) return refuse("a digit must follow the sign");
    if (text_[first] == '0' && at_ > first + 1) return refuse("no zero may stand in front");
    if (peek() == '.' && (++at_, !digits())) return refuse("a digit must follow the point");
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return refuse("a digit must follow the exponent sign");
    }
    if (at_ < begin + word.size())
      return refuse(fmt::format("'{}' does not belong to it", word.substr(at_ - begin)));
    if (std::isinf(std::strtod(std::string(word).c_str(), nullptr)))
      return refuse("it is larger than 1.8e308");
    return true;
  }

  bool literal() {
    const std::string_view word = token();
    if (word == "true" || word == "false" || word == "null") return at_ += word.size(), true;
    static constexpr std::array<std::array<std::string_view, 2>, 8> kMistakes{{{"True", "true"},
                                                                               {"False", "false"},
                                                                               {"None", "null"},
                                                                               {"TRUE", "true"},
                                                                               {"FALSE", "false"},
                                                                               {"NULL", "null"},
                                                                               {"yes", "true"},
                                                                               {"no", "false"}}};
    for (const auto& [wrong, right] : kMistakes) {
      if (word == wrong)
        return fail(fmt::format("expected a value, found '{}' (JSON writes it {})", wrong, right));
    }
    if (word == "NaN" || word == "nan" || word == "Infinity" || word == "inf") {
      return fail(fmt::format("expected a value, found '{}' (JSON has no such number)", word));
    }
    return fail(fmt::format("expected a value, found {}", found()));
  }

  std::string_view text_;
  JsonOffsets& offsets_;
  std::size_t at_ = 0;
  std::optional<SyntaxProblem> problem_;
};

/// A token as the index of a list.
std::optional<std::size_t> index_of(const std::string& token) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  return index;
}

}  // namespace

JsonOffsets::Place* JsonOffsets::add_member(std::size_t object, std::string key) {
  const auto [member, is_new] = members_.try_emplace({object, std::move(key)});
  return is_new ? &member->second : nullptr;
}

std::optional<JsonOffsets::Place> JsonOffsets::find(std::string_view pointer) const {
  Place place{.value = root_, .key = std::nullopt};
  for (std::string& token : pointer_tokens(pointer)) {
    if (const auto array = elements_.find(place.value); array != elements_.end()) {
      const auto index = index_of(token);
      if (!index || *index >= array->second.size()) return std::nullopt;
      place = {.value = array->second[*index], .key = std::nullopt};
    } else {
      const auto member = members_.find({place.value, std::move(token)});
      if (member == members_.end()) return std::nullopt;
      place = member->second;
    }
  }
  return place;
}

std::optional<SyntaxProblem> scan_json(std::string_view text, JsonOffsets& offsets) {
  return Scanner(text, offsets).run();
}

std::string escape_token(std::string_view token) {
  std::string escaped;
  for (const char c : token) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace ddprun::config
