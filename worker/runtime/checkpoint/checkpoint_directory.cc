#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/folder_listing.h"
#include "worker/runtime/checkpoint/live_folder.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/checkpoint.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  constexpr std::string_view kSuffix = ".pt";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

Result<std::vector<CheckpointDirectory::Entry>> list_steps(const std::string& folder) {
  const auto names =
      runtime::files_in(folder, [](std::string_view name) { return step_of(name).has_value(); });
  if (!names) return names.error();
  std::vector<CheckpointDirectory::Entry> entries;
  for (const std::string& name : *names)
    entries.push_back({*step_of(name), (fs::path(folder) / name).string()});
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return entries;
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(std::string folder, int keep)
    : folder_(std::move(folder)), keep_(keep) {
  if (keep_ >= 1) return;
  throw Exception(ErrorCode::kConfig, fmt::format("checkpoints: keep is {}; it has to be at least 1", keep_));
}

std::string CheckpointDirectory::save(std::int64_t step, const PtValue& value) {
  if (const Result<void> made = runtime::create_folders(folder_); !made) {
    throw Exception(made.error().code(),
                    fmt::format("cannot create checkpoint folder {}: {}", folder_, made.error().message()));
  }
  if (!is_way_synced_) runtime::sync_way_to(folder_);
  is_way_synced_ = true;
  runtime::remove_leftovers_in(folder_);
  std::string path = fmt::format("{}/step-{:08}.pt", folder_, step);
  save_pt(path, value);
  remove_older(step);
  return path;
}

// The checkpoint is on the disk by now, and what cannot be listed or removed is the next one's.
void CheckpointDirectory::remove_older(std::int64_t step) const {
  const Result<std::vector<Entry>> entries = list_steps(folder_);
  if (!entries) return;
  for (std::size_t i = static_cast<std::size_t>(keep_); i < entries->size(); ++i) {
    std::error_code ignored;
    if ((*entries)[i].step < step) fs::remove((*entries)[i].path, ignored);
  }
}

std::vector<CheckpointDirectory::Entry> CheckpointDirectory::list() const {
  return runtime::value_or_throw(list_steps(folder_));
}

std::optional<CheckpointDirectory::Loaded> CheckpointDirectory::load_newest(
    const std::function<void(const Entry& entry, const std::string& why)>& skipped) const {
  const auto read = [&](const Entry& entry) -> std::optional<Loaded> {
    try {
      return Loaded{entry, load_pt(entry.path)};
    } catch (const Exception& exception) {
      if (exception.code() != ErrorCode::kCorrupt) throw;
      if (skipped) skipped(entry, exception.what());
      return std::nullopt;
    }
  };
  return runtime::first_of_live_folder([&] { return list(); }, read);
}

}  // namespace ddprun
