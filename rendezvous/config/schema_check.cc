#include "rendezvous/config/schema_check.h"

#include "rendezvous/config/json_scanner.h"
#include "rendezvous/config/schema_words.h"

#include <fmt/format.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <map>

namespace ddprun::config {
namespace {

using nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

/// valijson's verdict: each place that it refuses, with the first thing it says about it.
std::map<std::string, std::string> refused_places(const json& schema, const json& value) {
  valijson::Schema compiled;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(schema), compiled);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  std::map<std::string, std::string> places;
  if (validator.validate(compiled, Adapter(value), &results)) return places;
  for (const auto& result : results) {
    std::string pointer;
    // A context is "<root>", "[train]", "[epochs]": one element for each step.
    for (std::size_t step = 1; step < result.context.size(); ++step) {
      const std::string& name = result.context[step];
      pointer += "/" + escape_token(std::string_view(name).substr(1, name.size() - 2));
    }
    places.emplace(std::move(pointer), result.description);
  }
  return places;
}

void explain_object(const json& schema, const json& object, const std::string& pointer,
                    std::vector<Problem>& problems) {
  const json& place = *schema_at(schema, pointer);
  for (const auto& [key, ignored] : object.items()) {
    const std::string inner = pointer + "/" + escape_token(key);
    if (!place["properties"].contains(key)) problems.push_back({inner, unknown_key(schema, inner)});
  }
  if (const auto most = place.find("maxProperties"); most != place.end() && object.size() > *most) {
    problems.push_back(
        {pointer, fmt::format("has {} entries, and at most {} are possible; remove {}", object.size(),
                              most->dump(), object.size() - most->get<std::size_t>())});
  }
  for (const json& key : place.value("required", json::array())) {
    if (object.contains(key)) continue;
    const std::string inner = pointer + "/" + escape_token(key.get<std::string>());
    problems.push_back({inner, fmt::format("missing; expected {}", expected(*schema_at(schema, inner)))});
  }
}

/// True when some refused place lies below `pointer`: what is wrong is said there.
bool is_explained_below(const std::map<std::string, std::string>& places, const std::string& pointer) {
  const auto below = places.lower_bound(pointer + "/");
  return below != places.end() && below->first.starts_with(pointer + "/");
}

/// A name that a plug-in beside it explains, which the schema cannot know.
bool is_open(const json& place, const json& value, const std::string& pointer) {
  if (!place.contains("x-open") || !value.at(json::json_pointer(pointer)).is_string()) return false;
  const json& object = value.at(json::json_pointer(parent_pointer(pointer)));
  const auto sibling = object.find(place["x-open"].get<std::string>());
  return sibling != object.end() && !sibling->is_null();
}

}  // namespace

std::vector<Problem> check_against_schema(const json& schema, const json& value) {
  const std::map<std::string, std::string> places = refused_places(schema, value);
  std::vector<Problem> problems;
  for (const auto& [pointer, description] : places) {
    const json* place = schema_at(schema, pointer);
    const json& refused = value.at(json::json_pointer(pointer));
    if (place != nullptr && is_open(*place, value, pointer)) continue;
    if (place == nullptr) {
      problems.push_back({pointer, description});
    } else if (refused.is_object() && has_allowed_type(*place, refused)) {
      explain_object(schema, refused, pointer, problems);
    } else if (!is_explained_below(places, pointer)) {
      problems.push_back({pointer, fmt::format("expected {}, found {}{}", expected(*place),
                                               found(*place, refused), nearest_word(*place, refused))});
    }
  }
  return problems;
}

}  // namespace ddprun::config
