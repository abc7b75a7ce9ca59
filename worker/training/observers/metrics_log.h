#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {

/// Metrics as JSON lines, appended: one object a line, each with "event" and "time" (seconds since 1970).
/// Rank 0 writes them.
class MetricsLog {
 public:
  /// One that writes nowhere.
  MetricsLog() = default;
  /// A file that takes a record no more is told of by `warn`, once.
  explicit MetricsLog(std::function<void(const std::string& text)> warn) : warn_(std::move(warn)) {}

  /// From now on records are appended to the file at `path`, too. Errors: kOs, naming it.
  Result<void> append_to(const std::string& path);

  /// Adds "event" and "time" to `fields` and writes them, one write(2) a file. A full disk does not stop the
  /// training, and a record that it cut spoils none after it.
  void write(const std::string& event, const nlohmann::json& fields);

  /// Those that the first of the files did not take.
  [[nodiscard]] std::int64_t lost_records() const { return files_.empty() ? 0 : files_.front().lost; }

 private:
  struct File {
    std::string path;
    UniqueFd fd;
    std::int64_t lost = 0;
    bool ends_in_part = false;  // of a record
  };
  void append(File& file, const std::string& line) const;

  std::vector<File> files_;
  std::function<void(const std::string& text)> warn_;
};

}  // namespace ddprun::training
