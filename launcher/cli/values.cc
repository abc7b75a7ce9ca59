#include "launcher/cli/values.h"

#include "launcher/text/python_numbers.h"
#include "launcher/text/text.h"
#include "rendezvous/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace ddprun::launcher {
namespace {

constexpr int kMaxRank = 1'000'000;
constexpr double kMaxSeconds = 365.0 * 86400.0;

Error expected(std::string_view what, std::string_view got) {
  return {ErrorCode::kUsage, fmt::format("expected {}, got \"{}\"", what, got)};
}

/// An integer as torchrun's int() reads it; none beyond the range of int.
std::optional<int> as_integer(std::string_view text) {
  const std::optional<long long> number = python_int(text);
  if (!number || *number < std::numeric_limits<int>::min() || *number > std::numeric_limits<int>::max())
    return std::nullopt;
  return static_cast<int>(*number);
}

std::string_view without_quotes(std::string_view text) {
  const std::size_t first = text.find_first_not_of("'\"");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of("'\"") - first + 1);
}

std::optional<double> seconds_of_unit(std::string_view unit) {
  if (unit == "ms") return 0.001;
  if (unit == "s" || unit.empty()) return 1.0;
  if (unit == "m" || unit == "min") return 60.0;
  if (unit == "h") return 3600.0;
  if (unit == "d") return 86400.0;
  return std::nullopt;
}

/// Numbers with units, as in 1h30m.
std::optional<double> as_seconds(std::string_view text) {
  double total = 0;
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::optional<double> number = python_float(text.substr(0, digits));
    text.remove_prefix(digits);
    const std::size_t letters = std::min(text.find_first_of("0123456789."), text.size());
    const std::optional<double> unit = seconds_of_unit(text.substr(0, letters));
    text.remove_prefix(letters);
    if (!number || !unit) return std::nullopt;
    total += *number * *unit;
  }
  return total;
}

std::optional<StdStream> as_streams(std::string_view text) {
  if (text.size() != 1 || text.front() < '0' || text.front() > '3') return std::nullopt;
  return static_cast<StdStream>(text.front() - '0');
}

std::string either(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words;
  for (const std::string_view word : split(list, ' ')) words.emplace_back(word);
  return words;
}

/// Of an enum whose values are in the order of the words.
template <class Enum>
Result<Enum> choice_of(std::string_view text, std::string_view list) {
  const std::vector<std::string> words = words_of(list);
  const Result<std::string> word = parse_choice(text, words);
  if (!word) return word.error();
  return static_cast<Enum>(std::find(words.begin(), words.end(), *word) - words.begin());
}

Result<std::map<std::string, std::string>> parse_key_values(std::string_view text) {
  std::map<std::string, std::string> values;
  text = stripped(text);
  if (text.empty()) return values;
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view key = without_quotes(stripped(entry.substr(0, equals)));
    const std::string_view value = without_quotes(stripped(entry.substr(std::min(equals + 1, entry.size()))));
    if (key.empty() || value.empty())
      return expected("key=value pairs separated by commas, as in join_timeout=60", text);
    values[std::string(key)] = value;
  }
  return values;
}

}  // namespace

Result<std::string> parse_file_name(const std::string& text) {
  if (!text.empty()) return text;
  return Error(ErrorCode::kUsage,
               "expected a file, got \"\"; is a shell variable unset? Leave the flag out if there is none");
}

Result<int> parse_integer(std::string_view text, int lowest, int highest) {
  const std::optional<int> number = as_integer(text);
  if (!number || *number < lowest || *number > highest) {
    const bool is_digits = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    const bool is_too_large = is_digits && (!number || *number > highest);
    const bool is_open = highest == std::numeric_limits<int>::max() && !is_too_large;
    return expected(is_open ? fmt::format("an integer of at least {}", lowest)
                            : fmt::format("an integer in [{}, {}]", lowest, highest),
                    text);
  }
  return *number;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  std::optional<double> seconds = python_float(text);
  if (!seconds && !stripped(text).empty()) seconds = as_seconds(stripped(text));
  // Written so that NaN is refused.
  if (!seconds || !(*seconds >= 0 && *seconds <= kMaxSeconds)) {
    return expected("seconds, or a duration such as 500ms, 90s, 30m, 1h30m or 2d (at most 365d)", text);
  }
  return std::chrono::milliseconds(std::llround(*seconds * 1000.0));
}

Result<std::chrono::milliseconds> parse_time_limit(std::string_view text) {
  const Result<std::chrono::milliseconds> limit = parse_duration(text);
  if (limit && limit->count() == 0) return expected("a time above 0", text);
  return limit;
}

Result<StreamMap> parse_stream_map(std::string_view text) {
  constexpr std::string_view kGrammar =
      "0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one of them by local rank as in 0:1,12:3";
  StreamMap map;
  if (const std::optional<StdStream> all = as_streams(text)) {
    map.all = *all;
    return map;
  }
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t colon = std::min(entry.find(':'), entry.size());
    const std::optional<int> rank = as_integer(entry.substr(0, colon));
    const std::optional<StdStream> streams = as_streams(entry.substr(std::min(colon + 1, entry.size())));
    if (!rank || *rank < 0 || *rank > kMaxRank || !streams) return expected(kGrammar, text);
    map.by_local_rank[*rank] = *streams;
  }
  return map;
}

Result<std::vector<int>> parse_rank_list(std::string_view text) {
  std::vector<int> ranks;
  if (text.empty()) return ranks;
  for (const std::string_view entry : split(text, ',')) {
    const std::optional<int> rank = as_integer(entry);
    if (!rank || *rank < 0 || *rank > kMaxRank)
      return expected("local ranks separated by commas, as in 0,1,12", text);
    ranks.push_back(*rank);
  }
  return ranks;
}

Result<std::vector<int>> parse_exit_codes(std::string_view text) {
  std::vector<int> codes;
  if (stripped(text).empty()) return codes;
  for (const std::string_view entry : split(text, ',')) {
    const std::optional<int> code = as_integer(entry);
    if (!code || *code < 1 || *code > 255) {
      return expected("exit codes in [1, 255] separated by commas, as in 93,94, or nothing for none", text);
    }
    codes.push_back(*code);
  }
  return codes;
}

std::vector<std::string> parse_words(std::string_view text) {
  std::vector<std::string> words;
  if (text.empty()) return words;
  words.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      words.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      words.back() += text[i++];
    } else {
      words.emplace_back();
    }
  }
  return words;
}

Result<membership::RdzvConf> parse_rdzv_conf(std::string_view text) {
  const auto values = parse_key_values(text);
  if (!values) return values.error();
  return membership::parse_rdzv_conf(*values);
}

std::string to_string(const WorkerCount& count) {
  switch (count.of) {
    case WorkerCount::Of::kNumber:
      return std::to_string(count.number);
    case WorkerCount::Of::kAuto:
      return "auto";
    case WorkerCount::Of::kCpu:
      return "cpu";
    case WorkerCount::Of::kGpu:
      return "gpu";
    case WorkerCount::Of::kXpu:
      return "xpu";
  }
  return "?";
}

Result<WorkerCount> parse_worker_count(std::string_view text) {
  using enum WorkerCount::Of;
  for (const WorkerCount::Of of : {kAuto, kCpu, kGpu, kXpu}) {
    if (text == to_string(WorkerCount{.of = of})) return WorkerCount{.of = of};
  }
  const Result<int> number = parse_integer(text, 1, kMaxWorkersPerNode);
  if (!number) {
    return expected(fmt::format("a number of workers in [1, {}], or auto, cpu or gpu", kMaxWorkersPerNode),
                    text);
  }
  return WorkerCount{.number = *number};
}

Result<Endpoint> parse_endpoint(std::string_view text, LoneWord lone) {
  const std::size_t colon = text.ends_with(']') ? std::string_view::npos : text.rfind(':');
  const bool has_colon = colon != std::string_view::npos;
  if (!has_colon && lone == LoneWord::kHost) return Endpoint{std::string(without_brackets(text)), {}};
  const Result<int> port = parse_integer(has_colon ? text.substr(colon + 1) : text, 0, 65535);
  const std::string_view host = text.substr(0, has_colon ? colon : 0);
  if (!port || (host.ends_with(':') && host != "::")) {  // "::1" alone is an address, and no port
    return expected(lone == LoneWord::kHost
                        ? "HOST:PORT with a port in [0, 65535], an IPv6 address as in [::1]:29400"
                        : "[HOST:]PORT with a port in [0, 65535], an IPv6 address as in [::1]:29400",
                    text);
  }
  return Endpoint{std::string(without_brackets(host)), Port(static_cast<std::uint16_t>(*port))};
}

Result<NodeRange> parse_node_range(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  const std::optional<int> lowest = as_integer(parts.front());
  const std::optional<int> highest = as_integer(parts.back());
  if (parts.size() > 2 || !lowest || !highest || *lowest < 1 || *highest < *lowest ||
      *highest > membership::kMaxNodes) {
    return expected(
        fmt::format("a number of nodes in [1, {}], or MIN:MAX with MIN not above MAX", membership::kMaxNodes),
        text);
  }
  return NodeRange{*lowest, *highest};
}

Result<bool> parse_switch(std::string_view text) {
  const std::optional<int> number = as_integer(text);
  if (!number) return expected("1 (on) or 0 (off)", text);
  return *number != 0;
}

Result<std::string> parse_choice(std::string_view text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string(text);
  return Error(ErrorCode::kUsage,
               fmt::format("expected {}, got \"{}\"{}", either(choices), text, did_you_mean(text, choices)));
}

Result<std::string> parse_backend(std::string_view text) { return parse_choice(text, words_of(kBackends)); }

Result<NumaBinding> parse_numa_binding(std::string_view text) {
  return choice_of<NumaBinding>(text, kNumaBindings);
}

Result<RdzvBackend> parse_rdzv_backend(std::string_view text) {
  if (text == "etcd" || text == "etcd-v2") {
    return Error(ErrorCode::kUsage,
                 fmt::format("\"{}\" is not spoken by ddprun, whose own rendezvous needs no second service; "
                             "use c10d",
                             text));
  }
  return choice_of<RdzvBackend>(text, kRdzvBackends);
}

Result<std::string> parse_start_method(std::string_view text) {
  return parse_choice(text, words_of(kStartMethods));
}

}  // namespace ddprun::launcher
