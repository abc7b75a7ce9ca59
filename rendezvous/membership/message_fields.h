#pragma once

#include "rendezvous/base/clock.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/membership/messages.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ddprun::membership {

// What goes through a message field by field: FieldWriter puts each into an object of JSON, FieldReader takes it from
// one. Both have the same functions, so that a message is described once, by describe(fields, message) in messages.cc,
// with each field's key, kind and range:
//
//   has             whether an optional field is there: the reader looks, the writer is told
//   number          an integer, StrongId or Duration (as nanoseconds), from low to high
//   flag, text      as they are
//   name, sentence  for people, in one line, however it was sent: at most kMaxNameBytes, kMaxSentenceBytes or so many
//   head, tail      for people, in lines: the first or the last so many bytes
//   word            of an enum, by its to_string()
//   optional_id     null, or nothing at all, where there is none
//   object          another that is described, in an object of its own
//   expect          what else has to hold of what was read

/// How describe() takes a T: to be written it stays as it is.
template <class Fields, class T>
using Described = std::conditional_t<Fields::kReads, T, const T>;

/// The integer in a number's type.
template <class Number>
struct PlainNumber {
  using Type = typename Number::value_type;
  static Type of(Number number) { return number.value(); }
};
template <>
struct PlainNumber<Duration> {
  using Type = Duration::rep;
  static Type of(Duration duration) { return duration.count(); }
};
template <class Int>
requires std::is_integral_v<Int>
struct PlainNumber<Int> {
  using Type = Int;
  static Type of(Int number) { return number; }
};
template <class Number>
using Plain = typename PlainNumber<Number>::Type;

/// The end of a text for people. Control characters would be six bytes each in JSON.
inline std::string shown_tail(std::string text, std::size_t longest) {
  if (text.size() > longest) text.erase(0, text.size() - longest);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return (c >= 0 && c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == '\x7f'; }, ' ');
  return text;
}

class FieldWriter {
 public:
  static constexpr bool kReads = false;

  [[nodiscard]] nlohmann::json take() && { return std::move(json_); }

  bool has(const char* /*key*/, bool is_given) { return is_given; }
  template <class Number>
  void number(const char* key, const Number& value, Plain<Number> /*low*/ = 0, Plain<Number> /*high*/ = 0) {
    json_[key] = PlainNumber<Number>::of(value);
  }
  void flag(const char* key, bool value) { json_[key] = value; }
  void text(const char* key, const std::string& value) { json_[key] = value; }
  void name(const char* key, const std::string& value) { sentence(key, value, kMaxNameBytes); }
  void sentence(const char* key, const std::string& value, std::size_t longest = kMaxSentenceBytes) {
    json_[key] = printable(value, longest);
  }
  void head(const char* key, const std::string& value, std::size_t longest) {
    json_[key] = shown_tail(value.substr(0, longest), longest);
  }
  void tail(const char* key, const std::string& value, std::size_t longest) {
    json_[key] = shown_tail(value, longest);
  }
  template <class Enum>
  void word(const char* key, Enum value, std::initializer_list<Enum> /*all*/, std::string_view /*wanted*/) {
    json_[key] = to_string(value);
  }
  template <class Id>
  void optional_id(const char* key, const std::optional<Id>& id) {
    json_[key] = id ? nlohmann::json(id->value()) : nlohmann::json(nullptr);
  }
  template <class T>
  void object(const char* key, const T& value) {
    FieldWriter inner;
    describe(inner, value);
    json_[key] = std::move(inner).take();
  }
  void expect(const char* /*key*/, bool /*holds*/, std::string_view /*wanted*/) {}

 private:
  nlohmann::json json_ = nlohmann::json::object();
};

/// Remembers the first field that is wrong; what is read of that one is a default.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(const nlohmann::json& json) : json_(json) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }

  [[nodiscard]] bool has(const char* key, bool /*is_given*/) const { return json_.contains(key); }
  template <class Number>
  void number(const char* key, Number& value, Plain<Number> low = 0,
              Plain<Number> high = std::numeric_limits<Plain<Number>>::max()) {
    value = Number(integer(key, low, high));
  }
  void flag(const char* key, bool& value) { take(key, value, &nlohmann::json::is_boolean, "true or false"); }
  void text(const char* key, std::string& value) { take(key, value, &nlohmann::json::is_string, "a string"); }
  void name(const char* key, std::string& value) { sentence(key, value, kMaxNameBytes); }
  void sentence(const char* key, std::string& value, std::size_t longest = kMaxSentenceBytes) {
    text(key, value);
    value = printable(value, longest);
  }
  void head(const char* key, std::string& value, std::size_t longest) { tail(key, value, longest); }
  void tail(const char* key, std::string& value, std::size_t longest) {
    text(key, value);
    value = shown_tail(value, 3 * longest);  // U+FFFD has three bytes
  }
  template <class Enum>
  void word(const char* key, Enum& value, std::initializer_list<Enum> all, std::string_view wanted) {
    std::string found;
    text(key, found);
    const auto same =
        std::find_if(all.begin(), all.end(), [&](Enum each) { return to_string(each) == found; });
    expect(key, same != all.end(), wanted);
    if (same != all.end()) value = *same;
  }
  template <class Id>
  void optional_id(const char* key, std::optional<Id>& id) {
    if (json_.contains(key) && !json_[key].is_null()) number(key, id.emplace());
  }
  template <class T>
  void object(const char* key, T& value) {
    static const nlohmann::json empty = nlohmann::json::object();
    const nlohmann::json* field = find(key);
    expect(key, field == nullptr || field->is_object(), "an object");
    FieldReader inner(field != nullptr && field->is_object() ? *field : empty);
    describe(inner, value);
    if (problem_.empty()) problem_ = inner.problem_;
  }
  void expect(const char* key, bool holds, std::string_view wanted) {
    if (!holds && problem_.empty()) problem_ = fmt::format("\"{}\" is missing or not {}", key, wanted);
  }

 private:
  const nlohmann::json* find(const char* key) {
    const auto found = json_.find(key);
    expect(key, found != json_.end(), "given");
    return found == json_.end() ? nullptr : &*found;
  }

  template <class T>
  void take(const char* key, T& value, bool (nlohmann::json::*is_one)() const noexcept,
            std::string_view wanted) {
    const nlohmann::json* field = find(key);
    if (field == nullptr) return;
    expect(key, (field->*is_one)(), wanted);
    if ((field->*is_one)()) value = field->get<T>();
  }

  template <class Int>
  Int integer(const char* key, Int low, Int high) {
    const nlohmann::json* field = find(key);
    if (field == nullptr) return low;
    expect(key, field->is_number_integer(), "a whole number");
    if (!field->is_number_integer()) return low;
    const bool fits = field->is_number_unsigned() ? std::in_range<Int>(field->get<std::uint64_t>())
                                                  : std::in_range<Int>(field->get<std::int64_t>());
    const Int value = fits ? field->get<Int>() : low;
    const bool is_within = fits && value >= low && value <= high;
    if (!is_within) expect(key, false, fmt::format("from {} to {}", low, high));
    return is_within ? value : low;
  }

  const nlohmann::json& json_;
  std::string problem_;
};

}  // namespace ddprun::membership
