#include "worker/training/report.h"

#include "rendezvous/base/host_name.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/version.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
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

/// As the text of a script: nothing in it may look like the script's end.
std::string for_script(std::string json) {
  for (std::size_t at = json.find("</"); at != std::string::npos; at = json.find("</", at + 3))
    json.replace(at, 2, "<\\/");
  return json;
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
  for (const std::string& record : records) {
    if (!nlohmann::json::accept(record)) continue;
    if (!list.empty()) list += ",\n";
    list += record;
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
}

void ReportObserver::on_epoch(const EpochEvent& /*event*/) {
  if (clock_.now() < next_) return;
  write();
  next_ = clock_.now() + kBetweenWrites;
}

void ReportObserver::on_end(const EndEvent& /*event*/) { write(); }

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
