#include "worker/training/observers/csv_observer.h"

#include "rendezvous/base/result.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

namespace ddprun::training {
namespace {

std::string csv_header_of(const std::string& path) {
  std::string line;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string csv_backup_name(const std::string& path) {
  int number = 1;
  while (std::filesystem::exists(fmt::format("{}.old-{}", path, number))) ++number;
  return fmt::format("{}.old-{}", path, number);
}

/// Whether the file's last line has no end: a crash or a full disk cut it.
bool is_cut(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

}  // namespace

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (&field != &fields.front()) line += ',';
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line + "\n";
}

CsvObserver::CsvObserver(std::string path, std::function<void(const std::string& text)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

void CsvObserver::on_start(const StartEvent& event) {
  metrics_ = event.metrics;
  rate_ = event.data.unit + "_per_second";
  columns_ = {"time", "epoch", "step", "loss", "learning_rate", rate_, "seconds"};
  for (const Metric& metric : event.metrics)
    columns_.push_back(metric.name == "loss" ? "held_out_loss" : metric.name);
  for (const Metric& metric : event.more_metrics) columns_.push_back(metric.name);

  std::vector<std::string> header{"event"};
  header.insert(header.end(), columns_.begin(), columns_.end());
  const std::string line = csv_line(header);
  const std::string before = csv_header_of(path_);
  if (!before.empty() && before + "\n" != line) {
    const std::string aside = csv_backup_name(path_);
    if (std::rename(path_.c_str(), aside.c_str()) != 0)
      return warn_once(os_error(fmt::format("cannot rename {} to {}", path_, aside), errno).message());
    if (warn_) {
      warn_(fmt::format("{} has other columns than this job writes, and is now {}", path_,
                        std::filesystem::path(aside).filename().string()));
    }
  }
  ends_in_part_ = is_cut(path_);
  fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd_) return warn_once(os_error("cannot open " + path_, errno).message());
  if (csv_header_of(path_).empty()) append(line);
}

void CsvObserver::on_step(const StepEvent& event) {
  if (!event.loss) return;
  write("step", {{"step", static_cast<double>(event.position.step)},
                 {"epoch", static_cast<double>(event.position.epoch + 1)},
                 {"loss", *event.loss},
                 {"learning_rate", event.learning_rate}});
}

void CsvObserver::on_epoch(const EpochEvent& event) { write("epoch", epoch_numbers(event, metrics_, rate_)); }

void CsvObserver::write(const std::string& event, const std::map<std::string, double>& values) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::vector<std::string> fields{event, fmt::format("{:.3f}", now.count())};
  for (auto column = columns_.begin() + 1; column != columns_.end(); ++column) {
    const auto value = values.find(*column);
    fields.push_back(value == values.end() ? "" : fmt::format("{}", value->second));
  }
  append(csv_line(fields));
}

void CsvObserver::append(const std::string& line) {
  if (!fd_) return;
  const std::string text = (ends_in_part_ ? "\n" : "") + line;
  const ssize_t written = ::write(fd_.get(), text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool is_whole = written == static_cast<ssize_t>(text.size());
  ends_in_part_ = !is_whole && (ends_in_part_ || written > 0);
  if (!is_whole) warn_once(os_error("cannot write to " + path_, error).message());
}

// Says so once: rows that a disk takes again are written again.
void CsvObserver::warn_once(const std::string& what) {
  if (!warn_) return;
  warn_(what + "; the training goes on");
  warn_ = nullptr;
}

}  // namespace ddprun::training
