#include "worker/runtime/checkpoint/best_checkpoints.h"

#include "rendezvous/base/parse_decimal.h"
#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/folder_listing.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace ddprun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "best-";
constexpr std::string_view kSuffix = ".pt";

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct BestName {
  std::int64_t step = 0;
  std::string_view metric;
  double value = 0;
};

/// "best-<step>-<metric>-<value>.pt"; a metric has no "-" there.
std::optional<BestName> parse(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(kSuffix.size(), name.size()));
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto step = to_integer(name.substr(0, dash));
  name.remove_prefix(dash + 1);
  const std::size_t end = name.find('-');
  if (!step || *step < 0 || end == std::string_view::npos || end == 0) return std::nullopt;
  const auto value = parse_decimal(name.substr(end + 1));
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return BestName{*step, name.substr(0, end), *value};
}

/// As part of a file's name.
std::string file_word(std::string name) {
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_plain && c != '_' && c != '.') c = '_';
  }
  return name;
}

bool is_better(const Metric& metric, const BestCheckpoints::Entry& one, const BestCheckpoints::Entry& other) {
  if (one.value == other.value) return one.step < other.step;
  return (metric.better == Metric::Better::kHigher) == (one.value > other.value);
}

/// A second name for `existing`, in one step. False where the file system has none.
bool link_to(const std::string& existing, const fs::path& path) {
  const std::string temporary = temporary_beside(path.string());
  std::error_code error;
  fs::create_hard_link(existing, temporary, error);
  if (error) return false;
  fs::rename(temporary, path, error);
  const bool is_done = !error;
  fs::remove(temporary, error);  // rename() leaves it where both are names of one file already
  return is_done && sync_folder(path.parent_path().string()).has_value();
}

}  // namespace

BestCheckpoints::BestCheckpoints(std::string folder, std::int64_t keep, Metric metric)
    : folder_(std::move(folder)), keep_(keep), metric_(std::move(metric)) {
  if (keep_ < 0) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("checkpoints: keep_best is {}; it has to be at least 0", keep_));
  }
  if (keep_ > 0 && metric_.name.empty()) {
    throw Exception(
        ErrorCode::kConfig,
        "checkpoints: best_by is empty; it is a part of the names of the best: say what the value is");
  }
}

std::vector<BestCheckpoints::Entry> BestCheckpoints::list() const { return value_or_throw(list_or_error()); }

Result<std::vector<BestCheckpoints::Entry>> BestCheckpoints::list_or_error() const {
  const std::string metric = file_word(metric_.name);
  const auto names = files_in(folder_, [&](std::string_view name) {
    const auto parsed = parse(name);
    return parsed && parsed->metric == metric;
  });
  if (!names) return names.error();
  std::vector<Entry> entries;
  for (const std::string& name : *names) {
    const BestName parsed = *parse(name);
    entries.push_back({parsed.step, parsed.value, (fs::path(folder_) / name).string()});
  }
  std::sort(entries.begin(), entries.end(),
            [&](const Entry& a, const Entry& b) { return is_better(metric_, a, b); });
  return entries;
}

std::string BestCheckpoints::others_in_words() const {
  const std::string metric = file_word(metric_.name);
  std::set<std::string> metrics;
  const auto names = files_in(folder_, [&](std::string_view name) {
    const auto parsed = parse(name);
    return parsed && (keep_ == 0 || parsed->metric != metric);
  });
  if (!names) return names.error().message();
  if (names->empty()) return {};
  for (const std::string& name : *names) metrics.emplace(parse(name)->metric);
  const std::size_t count = names->size();
  return fmt::format(
      "{} best checkpoint{} by {} of before stay{} in the folder, neither counted nor removed: {}", count,
      count == 1 ? "" : "s", fmt::join(metrics, ", "), count == 1 ? "s" : "",
      keep_ == 0 ? "/checkpoint/best is 0 now" : "/checkpoint/best_by is " + metric_.name + " now");
}

bool BestCheckpoints::wants(std::int64_t step, double value) const {
  if (keep_ == 0 || !std::isfinite(value)) return false;
  const Entry fresh{step, value, {}};
  const std::vector<Entry> entries = list();
  const auto better = std::count_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.step != step && is_better(metric_, entry, fresh);
  });
  return better < keep_;
}

std::optional<std::string> BestCheckpoints::save(std::int64_t step, double value, const PtValue& checkpoint,
                                                 const std::string& same) {
  if (!wants(step, value)) return std::nullopt;
  const std::string path =
      fmt::format("{}/best-{:08}-{}-{}.pt", folder_, step, file_word(metric_.name), value);
  if (same.empty() || !link_to(same, path)) {
    if (const Result<void> made = create_folders(folder_); !made) {
      throw Exception(made.error().code(),
                      fmt::format("cannot create checkpoint folder {}: {}", folder_, made.error().message()));
    }
    if (!is_way_synced_) sync_way_to(folder_);
    is_way_synced_ = true;
    save_pt(path, checkpoint);
  }
  remove_what_it_replaces(step, path);
  return path;
}

// It is on the disk by now, and what cannot be listed or removed is the next one's.
void BestCheckpoints::remove_what_it_replaces(std::int64_t step, const std::string& path) const {
  const Result<std::vector<Entry>> entries = list_or_error();
  if (!entries) return;
  std::int64_t kept = 0;
  for (const Entry& entry : *entries) {
    const bool is_replaced = entry.step == step && entry.path != path;
    std::error_code ignored;
    if (is_replaced || ++kept > keep_) fs::remove(entry.path, ignored);
  }
}

std::optional<std::int64_t> step_of_best(std::string_view file_name) {
  const auto parsed = parse(file_name);
  return parsed ? std::optional(parsed->step) : std::nullopt;
}

}  // namespace ddprun::runtime
