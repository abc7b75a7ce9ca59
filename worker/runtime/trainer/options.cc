#include <ddprun/exception.h>
#include <ddprun/trainer/options.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun {

using nlohmann::json;

struct Options::Node {
  json values;
  std::string pointer;
  std::set<std::string> read;
};

namespace {

[[noreturn]] void refuse(const std::string& pointer, std::string_view expected, const json& found) {
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: expected {}, got {} ({})", pointer, expected, found.dump(),
                              found.is_string() ? "a string" : found.type_name()));
}

std::int64_t to_integer(const json& value, const std::string& pointer) {
  const bool is_too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || is_too_large) refuse(pointer, "integer", value);
  return value.get<std::int64_t>();
}

double to_number(const json& value, const std::string& pointer) {
  if (!value.is_number()) refuse(pointer, "number", value);
  return value.get<double>();
}

bool to_flag(const json& value, const std::string& pointer) {
  if (!value.is_boolean()) refuse(pointer, "true or false", value);
  return value.get<bool>();
}

std::string to_text(const json& value, const std::string& pointer) {
  if (!value.is_string()) refuse(pointer, "a string", value);
  return value.get<std::string>();
}

template <class Convert>
auto to_list(const json& value, const std::string& pointer, Convert convert) {
  if (!value.is_array()) refuse(pointer, "a list", value);
  std::vector<decltype(convert(value, pointer))> list;
  for (std::size_t i = 0; i < value.size(); ++i)
    list.push_back(convert(value[i], fmt::format("{}/{}", pointer, i)));
  return list;
}

}  // namespace

Options::Options(const std::string& json_text, std::string pointer) : node_(std::make_shared<Node>()) {
  node_->values = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  node_->pointer = std::move(pointer);
  if (!node_->values.is_object()) refuse(node_->pointer, "an object", node_->values);
}

bool Options::has(const std::string& key) const {
  node_->read.insert(key);
  const auto found = node_->values.find(key);
  return found != node_->values.end() && !found->is_null();
}

// A key counts as read also where it is not there: it is known.
template <class Convert>
auto Options::read(const std::string& key, Convert convert) const {
  node_->read.insert(key);
  const std::string place = node_->pointer + "/" + key;
  if (!has(key)) throw Exception(ErrorCode::kConfig, place + ": missing");
  return convert(node_->values[key], place);
}

std::int64_t Options::integer(const std::string& key) const { return read(key, to_integer); }
double Options::number(const std::string& key) const { return read(key, to_number); }
bool Options::flag(const std::string& key) const { return read(key, to_flag); }
std::string Options::text(const std::string& key) const { return read(key, to_text); }

std::vector<std::int64_t> Options::integers(const std::string& key) const {
  return read(key,
              [](const json& value, const std::string& place) { return to_list(value, place, to_integer); });
}
std::vector<double> Options::numbers(const std::string& key) const {
  return read(key,
              [](const json& value, const std::string& place) { return to_list(value, place, to_number); });
}
std::vector<std::string> Options::texts(const std::string& key) const {
  return read(key,
              [](const json& value, const std::string& place) { return to_list(value, place, to_text); });
}

Options Options::object(const std::string& key) const {
  return read(key, [](const json& value, const std::string& place) { return Options(value.dump(), place); });
}
std::vector<Options> Options::objects(const std::string& key) const {
  return read(key, [](const json& value, const std::string& place) {
    return to_list(value, place,
                   [](const json& item, const std::string& at) { return Options(item.dump(), at); });
  });
}

template <class T, class Convert>
T Options::read_or(const std::string& key, T fallback, Convert convert) const {
  node_->read.insert(key);
  return has(key) ? read(key, convert) : fallback;
}

std::int64_t Options::integer(const std::string& key, std::int64_t fallback) const {
  return read_or(key, fallback, to_integer);
}
double Options::number(const std::string& key, double fallback) const {
  return read_or(key, fallback, to_number);
}
bool Options::flag(const std::string& key, bool fallback) const { return read_or(key, fallback, to_flag); }
std::string Options::text(const std::string& key, const std::string& fallback) const {
  return read_or(key, fallback, to_text);
}

std::vector<std::string> Options::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : node_->values.items()) {
    if (!node_->read.contains(key)) keys.push_back(key);
  }
  return keys;
}

const std::string& Options::pointer() const { return node_->pointer; }
std::string Options::to_json() const { return node_->values.dump(2); }

}  // namespace ddprun
