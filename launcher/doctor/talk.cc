#include "launcher/doctor/talk.h"

#include "rendezvous/base/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace ddprun::launcher::doctor_talk {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestSentence = 512;
constexpr std::size_t kLongestToken = 128;
constexpr std::size_t kMostWrong = 12;  // of one host: with sentences this long they fit into one message
constexpr std::size_t kLongestTopic = 64;
constexpr std::size_t kPartBytes = 8 * 1024;
constexpr double kMostSeconds = 3600;
constexpr double kMostBits = 1e13;
constexpr std::int64_t kMostUnixNs = std::int64_t{1} << 62;
constexpr std::int64_t kMostMilliseconds = std::int64_t{2} * 24 * 3600 * 1000;

std::string name(std::string_view text) { return ddprun::printable(text, kLongestName); }
std::string sentence(std::string_view text) { return ddprun::printable(text, kLongestSentence); }

/// The texts of a sheet, by the name they have in JSON.
constexpr std::pair<const char*, std::string HostSheet::*> kTexts[] = {
    {"host", &HostSheet::host},     {"ddprun", &HostSheet::ddprun}, {"kernel", &HostSheet::kernel},
    {"python", &HostSheet::python}, {"torch", &HostSheet::torch},   {"nccl", &HostSheet::nccl},
    {"driver", &HostSheet::driver}, {"gpus", &HostSheet::gpus},
};

Json body(const ProbePlace& place) { return {{"port", place.port.value()}, {"token", place.token}}; }

Json body(const Sheet& said) {
  Json json{{"place", body(said.place)}, {"wrong", Json::array()}};
  for (const auto& [key, member] : kTexts) json[key] = name(said.sheet.*member);
  for (const Finding& finding : said.sheet.wrong) {
    if (json["wrong"].size() == kMostWrong) break;
    json["wrong"].push_back(
        {ddprun::printable(finding.topic, kLongestTopic), sentence(finding.state), sentence(finding.mend)});
  }
  return json;
}
Json body(const TellTime& asked) { return Json::object({{"silence", asked.silence.count()}}); }
Json body(const Time& time) { return Json::object({{"ns", time.unix_ns}}); }
Json body(const ProbeOne& asked) {
  return {{"address", asked.address}, {"place", body(asked.place)}, {"stream", asked.stream.count()}};
}
Json body(const Probed& probed) {
  Json json{{"error", sentence(probed.error)}, {"bits", probed.bits_per_second}};
  if (probed.round_trip) json["trip"] = *probed.round_trip;
  return json;
}
Json body(const PagePart& part) {
  return {{"text", part.text}, {"last", part.is_last}, {"wrong", part.is_wrong}};
}

/// In the order of Words.
constexpr std::string_view kTypes[] = {"sheet", "tell time", "time", "probe", "probed", "page"};

/// Reads fields, and remembers the first that is not as it has to be.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  std::string text(const char* key, std::size_t longest) {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_string()) return wrong(key), std::string();
    std::string value = found->get<std::string>();
    if (value.size() > longest) return wrong(key), std::string();
    return value;
  }
  std::int64_t whole(const char* key, std::int64_t low, std::int64_t high) {
    const auto found = json_.find(key);
    const bool fits =
        found != json_.end() && found->is_number_integer() &&
        (!found->is_number_unsigned() || found->get<std::uint64_t>() <= static_cast<std::uint64_t>(high));
    const std::int64_t value = fits ? found->get<std::int64_t>() : low;
    if (!fits || value < low || value > high) return wrong(key), low;
    return value;
  }
  double number(const char* key, double high) {
    const auto found = json_.find(key);
    const double value = found != json_.end() && found->is_number() ? found->get<double>() : -1;
    if (!(value >= 0 && value <= high)) return wrong(key), 0;
    return value;
  }
  bool flag(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_boolean()) return wrong(key), false;
    return found->get<bool>();
  }
  const Json& part(const char* key) {
    static const Json kNothing = Json::object();
    const auto found = json_.find(key);
    return found == json_.end() ? wrong(key), kNothing : *found;
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  void wrong(const char* key) {
    if (wrong_.empty()) wrong_ = key;
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  const Json& json_;
  std::string wrong_;
};

ProbePlace parse_place(Fields& outer) {
  const Json& json = outer.part("place");
  Fields fields(json);
  ProbePlace place{Port(static_cast<std::uint16_t>(fields.whole("port", 1, 65535))),
                   fields.text("token", kLongestToken)};
  if (place.token.size() < 16 || !fields.wrong().empty()) outer.wrong("place");
  return place;
}

Sheet parse_sheet(Fields& fields) {
  Sheet said;
  said.place = parse_place(fields);
  for (const auto& [key, member] : kTexts) said.sheet.*member = name(fields.text(key, kLongestName));
  const Json& wrong = fields.part("wrong");
  if (!wrong.is_array() || wrong.size() > kMostWrong) return fields.wrong("wrong"), said;
  for (const Json& each : wrong) {
    const bool has_three =
        each.is_array() && each.size() == 3 &&
        std::all_of(each.begin(), each.end(), [](const Json& text) { return text.is_string(); });
    if (!has_three) return fields.wrong("wrong"), said;
    said.sheet.wrong.push_back(all_wrong(ddprun::printable(each[0].get<std::string>(), kLongestTopic),
                                         sentence(each[1].get<std::string>()),
                                         sentence(each[2].get<std::string>())));
  }
  return said;
}

ProbeOne parse_probe(Fields& fields) {
  return {.address = fields.text("address", kLongestName),
          .place = parse_place(fields),
          .stream = std::chrono::milliseconds(fields.whole("stream", 0, 10'000))};
}

Probed parse_probed(Fields& fields) {
  Probed probed{.error = sentence(fields.text("error", kLongestSentence)),
                .round_trip = std::nullopt,
                .bits_per_second = fields.number("bits", kMostBits)};
  if (fields.has("trip")) probed.round_trip = fields.number("trip", kMostSeconds);
  if (!probed.round_trip && probed.error.empty()) fields.wrong("trip");
  return probed;
}

Words parse_by_type(const std::string& type, Fields& fields) {
  if (type == kTypes[0]) return parse_sheet(fields);
  if (type == kTypes[1])
    return TellTime{std::chrono::milliseconds(fields.whole("silence", 0, kMostMilliseconds))};
  if (type == kTypes[2]) return Time{fields.whole("ns", 0, kMostUnixNs)};
  if (type == kTypes[3]) return parse_probe(fields);
  if (type == kTypes[4]) return parse_probed(fields);
  if (type == kTypes[5])
    return PagePart{fields.text("text", membership::kMaxDoctorBytes), fields.flag("last"),
                    fields.flag("wrong")};
  fields.wrong("says");
  return Time{};
}

}  // namespace

membership::DoctorWords encode(const Words& words) {
  Json json = std::visit([](const auto& each) { return body(each); }, words);
  json["says"] = kTypes[words.index()];
  return {json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

Result<Words> parse(const membership::DoctorWords& words) {
  const Json json = Json::parse(words.text, nullptr, false);
  if (!json.is_object()) return Error(ErrorCode::kCorrupt, "it says no JSON object");
  Fields fields(json);
  Words read = parse_by_type(fields.text("says", kLongestName), fields);
  if (!fields.wrong().empty())
    return Error(ErrorCode::kCorrupt, fmt::format("it says what no doctor says: \"{}\"", fields.wrong()));
  return read;
}

std::vector<PagePart> parts_of(const std::string& page, bool is_wrong) {
  std::vector<PagePart> parts;
  const auto is_inside_character = [&](std::size_t at) {
    return at < page.size() && (static_cast<unsigned char>(page[at]) & 0xC0U) == 0x80U;
  };
  for (std::size_t begin = 0, end = 0; begin < page.size(); begin = end) {
    end = std::min(begin + kPartBytes, page.size());
    while (end > begin + 1 && is_inside_character(end)) --end;
    parts.push_back({page.substr(begin, end - begin), false, is_wrong});
  }
  if (parts.empty()) parts.push_back({{}, false, is_wrong});
  parts.back().is_last = true;
  return parts;
}

}  // namespace ddprun::launcher::doctor_talk
