#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/config/override.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::config {

enum class OriginKind { kDefault, kFile, kFlag };

/// Where a value comes from.
struct Origin {
  OriginKind kind = OriginKind::kDefault;
  std::string text;  ///< "default", "job.json:12:15", "--set /train/epochs=3"
};

/// A training job as it will run: checked, complete, paths absolute.
struct JobConfig {
  std::string path;  ///< the job file, as given
  /// Every key that applies, defaults merged; valid by configs/train.schema.json and rules.h.
  nlohmann::json values;
  std::map<std::string, Origin> origins;  ///< by JSON pointer, of every value that is no object
};

/// A job before it is checked.
struct JobSource {
  std::string path;                 ///< what messages call the file; its folder is where its paths count from
  std::string text;                 ///< its content
  std::vector<Override> overrides;  ///< in order
  std::string working_directory;    ///< where paths in overrides and defaults count from; absolute
};

/// Checks a job against train.schema.json and completes it.
///
/// Errors  kConfig, and all problems at once (the first twenty, and how many more), each with file, line,
///         column and JSON pointer (or the flag that made it), what was expected, what was found and the
///         nearest key. Only a syntax error stands alone.
/// Paths   a relative path in the file counts from the file's folder, one of an override or default from the
///         working directory; `output_dir` null becomes runs/<name of the job file> there.
Result<JobConfig> read_job_config(const JobSource& source);

/// Reads the file at `path` and checks it; overrides as with --set. A file that cannot be read is kConfig,
/// too.
Result<JobConfig> load_job_config(const std::string& path, const std::vector<Override>& overrides = {});

/// Every value with its origin, one a line: `/train/epochs = 3    job.json:12:15`.
std::string describe(const JobConfig& job);

}  // namespace ddprun::config
