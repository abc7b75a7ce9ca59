#include "rendezvous/config/named_entries.h"

#include "rendezvous/config/schema_words.h"

#include <string>
#include <vector>

namespace ddprun::config {

void add_named_entries(nlohmann::json& schema, const nlohmann::json& values) {
  for (auto& [key, place] : schema["properties"].items()) {
    if (!place.contains("x-entries")) continue;
    nlohmann::json entry = *schema_at(schema, place["x-entries"].get<std::string>());
    for (const std::string& word : place.value("x-entries-without", std::vector<std::string>{}))
      entry["properties"].erase(word);
    place["additionalProperties"] = false;
    if (!values.is_object() || !values.contains(key) || !values[key].is_object()) continue;
    for (const auto& [name, ignored] : values[key].items()) place["properties"][name] = entry;
  }
}

void add_named_entry(nlohmann::json& schema, const std::string& pointer) {
  const std::size_t end_of_key = pointer.find('/', 1);
  if (pointer.empty() || end_of_key == std::string::npos) return;
  const std::string name = pointer.substr(end_of_key + 1, pointer.find('/', end_of_key + 1) - end_of_key - 1);
  const nlohmann::json entries = nlohmann::json::object({{name, nullptr}});
  add_named_entries(schema, nlohmann::json::object({{pointer.substr(1, end_of_key - 1), entries}}));
}

}  // namespace ddprun::config
