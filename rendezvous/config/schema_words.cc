#include "rendezvous/config/schema_words.h"

#include "rendezvous/base/suggest.h"
#include "rendezvous/config/json_scanner.h"
#include "rendezvous/config/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace ddprun::config {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestShown = 60;

std::vector<std::string> types_of(const json& schema) {
  if (!schema.contains("type")) return {};
  const json& type = schema["type"];
  return type.is_array() ? type.get<std::vector<std::string>>() : std::vector{type.get<std::string>()};
}

bool is_of_type(const json& value, std::string_view type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return type == "null" && value.is_null();
}

/// " from 1 to 64", " of at least 1", " above 0 and at most 1", "" where there is no limit.
std::string range(const json& schema) {
  const auto limit = [&](const char* key) { return schema.contains(key) ? schema[key].dump() : ""; };
  const std::string low = limit("minimum"), above = limit("exclusiveMinimum");
  const std::string high = limit("maximum"), below = limit("exclusiveMaximum");
  if (!low.empty() && !high.empty()) return fmt::format(" from {} to {}", low, high);
  std::vector<std::string> parts;
  if (!low.empty()) parts.push_back("of at least " + low);
  if (!above.empty()) parts.push_back("above " + above);
  if (!high.empty()) parts.push_back("at most " + high);
  if (!below.empty()) parts.push_back("below " + below);
  return parts.empty() ? "" : fmt::format(" {}", fmt::join(parts, " and "));
}

std::string plural(const json& items) {
  const std::vector<std::string> types = types_of(items);
  return types.size() == 1 ? types[0] + "s" : "values";
}

std::string list_words(const json& schema) {
  const json items = schema.value("items", json::object());
  const bool has_low = schema.contains("minItems"), has_high = schema.contains("maxItems");
  std::string count;
  if (has_low && has_high && schema["minItems"] == schema["maxItems"]) {
    count = fmt::format("{} ", schema["minItems"].dump());
  } else if (has_high) {
    count = fmt::format("up to {} ", schema["maxItems"].dump());
  }
  const std::string each = range(items);
  return fmt::format("a list of {}{}{}", count, plural(items), each.empty() ? "" : ", each" + each);
}

std::string words_for(const json& schema, std::string_view type) {
  if (type == "integer") return "an integer" + range(schema);
  if (type == "number") return "a number" + range(schema);
  if (type == "boolean") return "true or false";
  if (type == "string") return schema.value("minLength", 0) > 0 ? "a string that is not empty" : "a string";
  if (type == "array") return list_words(schema);
  return type == "object" ? "an object" : std::string(type);
}

std::string_view type_word(const json& value) {
  if (value.is_string()) return "a string";
  return value.is_number_integer() ? "an integer" : "a fraction";
}

std::vector<std::string> keys_of(const json& schema) {
  std::vector<std::string> keys;
  for (const auto& [key, ignored] : properties_of(schema).items()) {
    if (!key.starts_with('$')) keys.push_back(key);
  }
  return keys;
}

bool is_known_as(const json& schema, std::string_view name) {
  const json names = schema.value("x-aka", json::array());
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A key somewhere in the schema.
struct KnownKey {
  std::string pointer;
  std::string name;
  const json* schema;
};

void collect_keys(const json& schema, const std::string& at, std::vector<KnownKey>& keys) {
  for (const auto& [name, inner] : properties_of(schema).items()) {
    const std::string pointer = at + "/" + escape_token(name);
    keys.push_back({pointer, name, &inner});
    collect_keys(inner, pointer, keys);
  }
}

/// The pointer of the key anywhere in the schema that `typed` names, or most nearly does.
std::optional<std::string> place_of(const json& schema, const std::string& typed) {
  std::vector<KnownKey> keys;
  collect_keys(schema, "", keys);
  std::vector<std::string> names;
  for (const KnownKey& key : keys) {
    if (key.name == typed || is_known_as(*key.schema, typed)) return key.pointer;
    names.push_back(key.name);
  }
  const auto nearest = nearest_name(typed, names);
  if (!nearest) return std::nullopt;
  return std::find_if(keys.begin(), keys.end(), [&](const KnownKey& key) { return key.name == *nearest; })
      ->pointer;
}

}  // namespace

const json& properties_of(const json& schema) {
  static const json kNone = json::object();
  const auto properties = schema.find("properties");
  return properties == schema.end() ? kNone : *properties;
}

std::string expected(const json& schema) {
  if (schema.contains("x-list"))
    return fmt::format("a name that `ddprun list {}` shows", schema["x-list"].get<std::string>());
  if (schema.contains("enum")) {
    std::vector<std::string> values;
    for (const json& value : schema["enum"]) values.push_back(value.dump());
    return values.size() == 1 ? values[0] : fmt::format("one of {}", fmt::join(values, ", "));
  }
  std::vector<std::string> words;
  for (const std::string& type : types_of(schema)) words.push_back(words_for(schema, type));
  return fmt::format("{}", fmt::join(words, " or "));
}

bool has_allowed_type(const json& schema, const json& value) {
  const std::vector<std::string> types = types_of(schema);
  return std::any_of(types.begin(), types.end(),
                     [&](const std::string& type) { return is_of_type(value, type); });
}

std::string found(const json& schema, const json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "…";
  const bool type_says_it = value.is_boolean() || value.is_null() || has_allowed_type(schema, value);
  return type_says_it ? text : fmt::format("{} ({})", text, type_word(value));
}

std::string nearest_word(const json& schema, const json& value) {
  if (!schema.contains("enum") || !value.is_string()) return "";
  const auto name = nearest_name(value.get<std::string>(), schema["enum"].get<std::vector<std::string>>());
  return name ? fmt::format("; did you mean \"{}\"?", *name) : "";
}

const json* schema_at(const json& schema, std::string_view pointer) {
  const json* at = &schema;
  for (const std::string& token : pointer_tokens(pointer)) {
    const char* inner = at->contains("properties") ? "properties" : "items";
    if (!at->contains(inner)) return nullptr;
    const json& object = *at;
    at = &object[inner];
    if (std::string_view(inner) == "items") continue;
    if (at->contains(token)) {
      at = &(*at)[token];
    } else if (const auto others = object.find("additionalProperties");
               others != object.end() && others->is_object()) {
      at = &*others;
    } else {
      return nullptr;
    }
  }
  return at;
}

std::string unknown_key(const json& schema, std::string_view pointer) {
  const std::string key = pointer_tokens(pointer).back();
  const std::string object = parent_pointer(pointer);
  const json* place = schema_at(schema, object);
  if (place == nullptr || !place->contains("properties"))
    return "there is no such place: the value above it is no object";
  const std::vector<std::string> known = keys_of(*place);
  for (const std::string& name : known) {
    if (is_known_as((*place)["properties"][name], key))
      return fmt::format("unknown key; it is called \"{}\" here", name);
  }
  if (const auto name = nearest_name(key, known))
    return fmt::format("unknown key; did you mean \"{}\"?", *name);
  if (const auto elsewhere = place_of(schema, key))
    return fmt::format("unknown key; did you mean {}?", *elsewhere);
  return fmt::format("unknown key; known here: {}", fmt::join(known, ", "));
}

}  // namespace ddprun::config
