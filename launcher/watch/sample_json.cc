#include "launcher/watch/sample_json.h"

#include "launcher/text/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace ddprun::launcher::watch {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestPhase = 32;

/// How much is told of a rank.
struct Share {
  std::size_t entries;
  std::size_t line_bytes;
};

json entry_json(const why::Collective& entry, std::int64_t taken_ns) {
  return {entry.group,  entry.sequence, entry.operation, entry.is_peer, entry.created_ns - taken_ns,
          entry.is_over};
}

/// Throws json::type_error for another number: one with a fraction may be out of every integer's range.
std::int64_t whole(const json& number) { return number.get_ref<const json::number_integer_t&>(); }
int small(const json& number) {
  return static_cast<int>(std::clamp<std::int64_t>(whole(number), -1, std::numeric_limits<int>::max()));
}

/// Times are added and subtracted.
std::int64_t nanoseconds(const json& number) {
  constexpr std::int64_t kYear = 366LL * 24 * 3600 * 1'000'000'000;
  return std::clamp(whole(number), -kYear, kYear);
}

why::Collective parse_entry(const json& entry) {
  return {.group = entry.at(0),
          .sequence = static_cast<decltype(why::Collective::sequence)>(whole(entry.at(1))),
          .operation = printable(entry.at(2).get<std::string>()),
          .is_peer = entry.at(3),
          .created_ns = nanoseconds(entry.at(4)),
          .is_over = entry.at(5)};
}

json rank_json(const RankSample& rank, std::int64_t taken_ns, Share share) {
  json told{{"rank", rank.rank}, {"local", rank.local_rank}, {"pid", rank.pid}};
  if (rank.pid != 0) told.update({{"state", rank.state}, {"cpu", rank.cpu_s}, {"memory", rank.memory}});
  if (rank.gpu) told["gpu_memory"] = rank.gpu->memory;
  if (rank.gpu && rank.gpu->utilization) told["gpu"] = *rank.gpu->utilization;
  if (rank.recorder.is_there) {
    json entries = json::array();
    const std::vector<why::Collective>& all = rank.recorder.entries;
    const std::size_t kept = std::min(all.size(), share.entries);
    for (std::size_t i = all.size() - kept; i < all.size(); ++i)
      entries.push_back(entry_json(all[i], taken_ns));
    told.update({{"next", rank.recorder.next}, {"entries", entries}});
  }
  if (rank.progress.step >= 0) told["step"] = rank.progress.step;
  if (!rank.progress.phase.empty()) told["phase"] = rank.progress.phase;
  if (rank.last_output_s)
    told.update({{"output_s", *rank.last_output_s}, {"line", shorten(rank.last_line, share.line_bytes)}});
  return told;
}

RankSample parse_rank(const json& told) {
  RankSample rank{.rank = small(told.at("rank")),
                  .local_rank = small(told.at("local")),
                  .pid = small(told.at("pid")),
                  .state = printable(told.value("state", "")),
                  .cpu_s = told.value("cpu", 0.0),
                  .memory = told.value("memory", std::uint64_t{0})};
  if (told.contains("gpu_memory")) rank.gpu = GpuUse{.memory = told.at("gpu_memory")};
  if (rank.gpu && told.contains("gpu"))
    rank.gpu->utilization = std::clamp(told.at("gpu").get<double>(), 0.0, 1.0);
  if (told.contains("next")) {
    rank.recorder.is_there = true;
    rank.recorder.next = static_cast<decltype(rank.recorder.next)>(whole(told.at("next")));
    for (const json& entry : told.at("entries")) rank.recorder.entries.push_back(parse_entry(entry));
  }
  if (told.contains("step")) rank.progress.step = std::max<std::int64_t>(whole(told.at("step")), 0);
  rank.progress.phase = shorten(printable(told.value("phase", "")), kLongestPhase);
  if (told.contains("output_s")) {
    rank.last_output_s = told.at("output_s").get<double>();
    rank.last_line = printable(told.at("line").get<std::string>());
  }
  return rank;
}

std::string text_of(const JobSample& sample, Share share, std::size_t ranks) {
  json told{{"host", sample.host}, {"phase", sample.state.phase}, {"at_s", sample.at_s}};
  told["left_out"] = sample.ranks.size() - ranks;
  json& all = told["ranks"] = json::array();
  for (std::size_t i = 0; i < ranks; ++i) all.push_back(rank_json(sample.ranks[i], sample.taken_ns, share));
  return told.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_text(const JobSample& sample, std::size_t most_bytes) {
  constexpr std::array kShares{Share{16, 256}, Share{4, 128}, Share{1, 40}};
  for (const Share share : kShares) {
    std::string text = text_of(sample, share, sample.ranks.size());
    if (text.size() <= most_bytes) return text;
  }
  for (std::size_t ranks = sample.ranks.size();; ranks /= 2) {
    std::string text = text_of(sample, kShares.back(), ranks);
    if (text.size() <= most_bytes) return text;
    if (ranks == 0) return {};
  }
}

std::optional<JobSample> parse_sample(std::string_view text) {
  const json told = json::parse(text, nullptr, false);
  if (!told.is_object()) return std::nullopt;
  try {
    JobSample sample;
    sample.host = printable(told.at("host").get<std::string>());
    sample.state.phase = printable(told.at("phase").get<std::string>());
    sample.at_s = told.at("at_s");
    sample.left_out = told.contains("left_out") ? small(told.at("left_out")) : 0;
    for (const json& rank : told.at("ranks")) sample.ranks.push_back(parse_rank(rank));
    return sample;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddprun::launcher::watch
