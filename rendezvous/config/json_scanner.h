#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::config {

/// Where each value and key of a JSON text begins. They are found by JSON pointer and kept as steps from a
/// value, known by its offset, to those in it: pointers written out for all take, where a long key stands
/// above many values, a multiple of the text.
class JsonOffsets {
 public:
  struct Place {
    std::size_t value = 0;
    std::optional<std::size_t> key;  ///< of a member of an object
  };

  /// What stands at `pointer`; "" is the whole text.
  [[nodiscard]] std::optional<Place> find(std::string_view pointer) const;

  void set_root(std::size_t offset) { root_ = offset; }
  void add_element(std::size_t array, std::size_t offset) { elements_[array].push_back(offset); }
  /// The place of a new member, to be filled in; null where the object has one of that name.
  Place* add_member(std::size_t object, std::string key);

 private:
  std::size_t root_ = 0;
  std::map<std::size_t, std::vector<std::size_t>> elements_;
  std::map<std::pair<std::size_t, std::string>, Place> members_;
};

/// The first thing in a text that is not JSON, or a key that stands twice in its object.
struct SyntaxProblem {
  std::size_t offset = 0;
  std::string message;  ///< "expected ',' or '}' after a value, found …", with a hint for a known mistake
};

/// Walks a JSON text (RFC 8259) and fills `offsets`; returns the first problem. It makes no values: that is
/// the JSON library's work, whose own messages name neither the place of a value nor the mistake.
std::optional<SyntaxProblem> scan_json(std::string_view text, JsonOffsets& offsets);

/// `token` as one step of a JSON pointer: '~' and '/' escaped (RFC 6901).
std::string escape_token(std::string_view token);

}  // namespace ddprun::config
