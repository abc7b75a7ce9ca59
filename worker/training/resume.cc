#include "worker/training/resume.h"

#include "worker/training/best_checkpoints.h"
#include <ddprun/collectives.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <vector>

namespace ddprun::training {

namespace fs = std::filesystem;

namespace {

constexpr int kAnyKeep = 1;  // this directory is only read

}  // namespace

std::vector<CheckpointDirectory::Entry> checkpoints_in(const std::string& folder) {
  std::vector<CheckpointDirectory::Entry> entries = CheckpointDirectory(folder, kAnyKeep).list();
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of_best(file.path().filename().string()))
      entries.push_back({*step, file.path().string()});
  }
  // A folder of such a name is somebody else's.
  std::erase_if(entries, [&](const auto& entry) { return !fs::is_regular_file(entry.path, error); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& one, const auto& other) { return one.step > other.step; });
  return entries;
}

namespace {

std::optional<ResumePoint> newest(const std::string& folder, Console& console) {
  int skipped = 0;
  for (const CheckpointDirectory::Entry& entry : checkpoints_in(folder)) {
    try {
      return ResumePoint{entry.path, load_pt(entry.path).as_dict()};
    } catch (const Exception& exception) {
      if (exception.code() != ErrorCode::kCorrupt) throw;
      ++skipped;
      console.warning(fmt::format("checkpoint of step {} is passed over: {}", entry.step, exception.what()));
    }
  }
  if (skipped == 0) return std::nullopt;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("none of the {} checkpoints in {} can be read; put a whole one there, or start anew with "
                  "--set /resume=never",
                  skipped, folder));
}

std::string free_name(const std::string& folder) {
  int number = 1;
  while (fs::exists(fmt::format("{}.old-{}", folder, number))) ++number;
  return fmt::format("{}.old-{}", folder, number);
}

void set_aside(const std::string& folder, Console& console) {
  if (checkpoints_in(folder).empty()) return;
  const std::string aside = free_name(folder);
  std::error_code error;
  fs::rename(folder, aside, error);
  if (error) {
    throw Exception(ErrorCode::kOs,
                    fmt::format("cannot rename {} to {}: {}", folder, aside, error.message()));
  }
  console.line(fmt::format("earlier checkpoints were moved to {}", aside));
}

/// The checkpoints after the one that the job goes on from are of a way that it leaves: a restart takes the newest.
void set_aside_newer(const ResumeOptions& options, Console& console) {
  const std::vector<CheckpointDirectory::Entry> entries = checkpoints_in(options.folder);
  std::error_code error;
  const auto named = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return fs::equivalent(entry.path, options.choice, error);
  });
  if (named == entries.end() || named->step == entries.front().step) return;
  const std::string aside = free_name(options.folder);
  fs::create_directories(aside, error);
  for (auto newer = entries.begin(); newer->step > named->step && !error; ++newer)
    fs::rename(newer->path, fs::path(aside) / fs::path(newer->path).filename(), error);
  if (error) {
    throw Exception(ErrorCode::kOs, fmt::format("cannot move the checkpoints after {} to {}: {}",
                                                options.choice, aside, error.message()));
  }
  console.line(fmt::format("later checkpoints were moved to {}", aside));
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw Exception(ErrorCode::kOs, fmt::format("cannot read {}", path));
  return bytes;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const ResumeOptions& options, Console& console) {
  if (options.choice == "auto" || options.is_restart) {
    if (auto point = newest(options.folder, console)) return point;
    if (options.choice == "auto") return std::nullopt;
  }
  if (options.choice == "never") {
    set_aside(options.folder, console);
    return std::nullopt;
  }
  ResumePoint point{options.choice, load_pt(options.choice).as_dict()};
  std::error_code error;
  if (fs::equivalent(fs::absolute(options.choice).parent_path(), options.folder, error)) {
    set_aside_newer(options, console);
  } else {
    set_aside(options.folder, console);
  }
  return point;
}

std::optional<ResumePoint> share_resume_point(const Context& context, std::optional<ResumePoint> point) {
  if (context.world_size() == 1) return point;
  const bool is_source = context.rank() == 0;
  std::string path = broadcast_bytes(context, is_source && point ? point->path : std::string());
  if (path.empty()) return std::nullopt;
  const std::string bytes = broadcast_bytes(context, is_source ? read_bytes(path) : std::string());
  if (is_source) return point;
  const PtValue value = parse_pt(std::as_bytes(std::span(bytes)), path);
  return ResumePoint{std::move(path), value.as_dict()};
}

}  // namespace ddprun::training
