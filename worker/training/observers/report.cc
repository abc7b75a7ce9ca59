#include "worker/training/observers/report.h"

#include "rendezvous/base/host_name.h"
#include <ddprun/version.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

namespace ddprun::training {
namespace {

constexpr auto kBetweenWrites = std::chrono::seconds(10);
constexpr std::uintmax_t kMostBytes = 64 << 20;
constexpr std::string_view kPlace = "@@DATA@@";

/// The lines of a regular file, the last kMostBytes of it: a link to a device has no end.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return lines;
  std::ifstream file(path);
  if (const auto size = std::filesystem::file_size(path, error); !error && size > kMostBytes)
    file.seekg(static_cast<std::streamoff>(size - kMostBytes));
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

/// As the text of a script: without a "<", which JSON has in strings alone, nothing in it looks like the script's end,
/// or hides it as "<!--<script>" does.
std::string for_script(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

using nlohmann::ordered_json;

double number_of(const ordered_json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : 0;
}

bool is_event(const ordered_json& record, std::initializer_list<std::string_view> names) {
  const auto found = record.find("event");
  return found != record.end() && found->is_string() &&
         std::find(names.begin(), names.end(), found->get<std::string>()) != names.end();
}

/// The records of what the model has learned: neither those of steps that a later start or a rollback has undone, nor
/// any before a start from the beginning. Each also says how long the job had been at work by then ("elapsed"), without
/// the pauses before its starts.
std::vector<ordered_json> records_that_count(const std::vector<std::string>& lines) {
  std::vector<ordered_json> kept;
  double elapsed = 0;
  double before = 0;
  for (const std::string& line : lines) {
    ordered_json record = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    const bool is_start = is_event(record, {"start"});
    const double step = number_of(record, "step");
    const double time = number_of(record, "time");
    if (is_start && step == 0 && number_of(record, "restart_count") == 0) {
      kept.clear();
      elapsed = 0;
    } else if (is_start || is_event(record, {"rollback"})) {
      std::erase_if(kept, [&](const ordered_json& earlier) {
        if (is_event(earlier, {"step", "epoch", "checkpoint"})) return number_of(earlier, "step") > step;
        return is_start && is_event(earlier, {"end"});
      });
    }
    if (!is_start) elapsed += std::max(0.0, time - before);
    before = time;
    record["elapsed"] = std::round(elapsed * 1000) / 1000;
    kept.push_back(std::move(record));
  }
  return kept;
}

}  // namespace

std::string make_report(const ReportFacts& facts, const std::vector<std::string>& records,
                        const std::string& job) {
  nlohmann::json shares = nlohmann::json::array();
  nlohmann::json higher = nlohmann::json::array();
  for (const Metric& metric : facts.metrics) {
    if (metric.is_share) shares.push_back(metric.name);
    if (metric.better == Metric::Better::kHigher) higher.push_back(metric.name);
  }
  const nlohmann::json about{{"name", facts.name},       {"model", facts.model},
                             {"device", facts.device},   {"steps_per_epoch", facts.steps_per_epoch},
                             {"host", host_name()},      {"version", DDPRUN_VERSION},
                             {"libtorch", TORCH_VERSION}};
  std::string list;
  for (const ordered_json& record : records_that_count(records)) {
    if (!list.empty()) list += ",\n";
    list += record.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }
  const std::string data =
      fmt::format(R"({{"facts":{},"shares":{},"higher_is_better":{},"job":{},"records":[{}]}})",
                  about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), shares.dump(),
                  higher.dump(), job, list);
  std::string page(report_page());
  page.replace(page.find(kPlace), kPlace.size(), for_script(data));
  return page;
}

ReportObserver::ReportObserver(Files files, ReportFacts facts, const Options& job, const Clock& clock,
                               std::function<void(const std::string& text)> warn)
    : files_(std::move(files)),
      facts_(std::move(facts)),
      job_(job.to_json()),
      clock_(clock),
      warn_(std::move(warn)) {}

void ReportObserver::on_start(const StartEvent& event) {
  facts_.metrics = event.metrics;
  facts_.metrics.insert(facts_.metrics.end(), event.more_metrics.begin(), event.more_metrics.end());
  facts_.steps_per_epoch = event.steps_per_epoch;
  next_ = clock_.now() + kBetweenWrites;
  // A page that is there may say that the job has failed.
  if (::access(files_.report.c_str(), F_OK) == 0) write();
}

void ReportObserver::on_epoch(const EpochEvent& /*event*/) {
  if (clock_.now() < next_) return;
  write();
  next_ = clock_.now() + kBetweenWrites;
}

void ReportObserver::on_end(const EndEvent& /*event*/) { write(); }

void ReportObserver::on_failure(const FailureEvent& /*event*/) { write(); }

void ReportObserver::write() {
  const std::string fresh = files_.report + ".new";
  std::ofstream file(fresh);
  file << make_report(facts_, lines_of(files_.metrics), job_);
  file.close();
  if (file && std::rename(fresh.c_str(), files_.report.c_str()) == 0) return;
  const int error = errno;
  ::unlink(fresh.c_str());
  if (!warn_) return;
  warn_(fmt::format("cannot write {}: {}; the training goes on", files_.report, std::strerror(error)));
  warn_ = nullptr;
}

}  // namespace ddprun::training
