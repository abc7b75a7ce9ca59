#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace ddprun::training {

/// Metrics as JSON lines, appended: one object a line, each with "event" and "time" (seconds since 1970).
/// Rank 0 writes them.
class MetricsLog {
 public:
  /// One that writes nowhere.
  MetricsLog() = default;
  /// Appends to each of `paths`. Errors: kOs, naming the file.
  static Result<MetricsLog> open(const std::vector<std::string>& paths);

  /// Adds "event" and "time" to `fields` and writes them, one write(2) a file. A full disk does not stop the
  /// training.
  void write(const std::string& event, const nlohmann::json& fields);

 private:
  std::vector<UniqueFd> files_;
};

}  // namespace ddprun::training
