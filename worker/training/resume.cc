#include "worker/training/resume.h"

#include "rendezvous/base/host_name.h"
#include "worker/runtime/checkpoint/best_checkpoints.h"
#include "worker/runtime/checkpoint/share_pt.h"
#include <ddprun/collectives.h>
#include <ddprun/fail_together.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>
#include <utility>
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
    const auto step = runtime::step_of_best(file.path().filename().string());
    // A folder of such a name is somebody else's.
    if (step && fs::is_regular_file(file.path(), error)) entries.push_back({*step, file.path().string()});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& one, const auto& other) { return one.step > other.step; });
  return entries;
}

namespace {

using IsWanted = std::function<bool(const PtDict& checkpoint)>;

ResumePoint read_point(const std::string& path) {
  Result<runtime::MappedFile> file = runtime::MappedFile::open(path);
  if (!file) throw Exception(file.error().code(), file.error().message());
  ResumePoint point{.path = path, .file = std::make_shared<runtime::MappedFile>(std::move(*file))};
  point.content = parse_pt(point.file->bytes(), path).as_dict();
  point.timeline = continued(point.content);
  return point;
}

/// `skipped` counts damaged ones.
std::optional<ResumePoint> newest(const std::string& folder, const IsWanted& is_wanted, Console& console,
                                  int& skipped) {
  for (const CheckpointDirectory::Entry& entry : checkpoints_in(folder)) {
    try {
      ResumePoint point = read_point(entry.path);
      if (is_wanted(point.content)) return point;
    } catch (const Exception& exception) {
      if (exception.code() != ErrorCode::kCorrupt) throw;
      ++skipped;
      console.warning(fmt::format("checkpoint of step {} is passed over: {}", entry.step, exception.what()));
    }
  }
  return std::nullopt;
}

std::optional<ResumePoint> newest_of_all(const std::string& folder, Console& console) {
  int skipped = 0;
  auto point = newest(
      folder, [](const PtDict&) { return true; }, console, skipped);
  if (point || skipped == 0) return point;
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

/// The folder itself where `folder` is a link to one: what is written next is to be where that one was.
std::string real_folder(const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  return error ? folder : real.string();
}

void set_aside(const std::string& folder, Console& console) {
  if (checkpoints_in(folder).empty()) return;
  const std::string real = real_folder(folder);
  const std::string aside = free_name(real);
  std::error_code error;
  fs::rename(real, aside, error);
  if (error)
    throw Exception(ErrorCode::kOs, fmt::format("cannot rename {} to {}: {}", real, aside, error.message()));
  fs::create_directories(real, error);  // a link to it leads there
  console.line(fmt::format("earlier checkpoints were moved to {}", aside));
}

/// The checkpoints after `chosen`, which the job goes on from, are of a way that it leaves.
void set_aside_newer(const std::string& chosen, const ResumeOptions& options, Console& console) {
  const std::vector<CheckpointDirectory::Entry> entries = checkpoints_in(options.folder);
  std::error_code error;
  const auto named = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return fs::equivalent(entry.path, chosen, error);
  });
  if (named == entries.end() || named->step == entries.front().step) return;
  const std::string aside = free_name(real_folder(options.folder));
  error.clear();
  fs::create_directories(aside, error);
  for (auto newer = entries.begin(); newer->step > named->step && !error; ++newer)
    fs::rename(newer->path, fs::path(aside) / fs::path(newer->path).filename(), error);
  if (error) {
    throw Exception(ErrorCode::kOs, fmt::format("cannot move the checkpoints after {} to {}: {}", chosen,
                                                aside, error.message()));
  }
  console.line(fmt::format("later checkpoints were moved to {}", aside));
}

/// Whether `path` lies there, whatever links lead to either.
bool is_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return fs::equivalent(fs::absolute(path).parent_path(), folder, error) ||
         fs::equivalent(real.parent_path(), folder, error);
}

std::optional<ResumePoint> newest_own(const ResumeOptions& options, Console& console) {
  int skipped = 0;
  const IsWanted is_own = [&](const PtDict& one) { return is_of_job(timeline_of(one), options.job); };
  return newest(options.folder, is_own, console, skipped);
}

std::optional<ResumePoint> find_own_or_begin_anew(const ResumeOptions& options, Console& console) {
  if (options.job.is_restart) {
    if (auto point = newest_own(options, console)) return point;
  }
  set_aside(options.folder, console);
  return std::nullopt;
}

std::optional<ResumePoint> find_line_or_begin_it(const ResumeOptions& options, Console& console) {
  const std::string path = fs::absolute(options.choice).lexically_normal().string();
  std::error_code error;
  std::optional<ResumePoint> named;
  // A job that keeps few checkpoints may have removed the one that it began from.
  if (fs::exists(options.choice, error)) named = read_point(options.choice);
  const std::string name = named ? name_of(named->content) : std::string();
  // A job that begins within its own folder may save over what it began from: then that one is of its line.
  const Timeline of_named = named ? timeline_of(named->content) : Timeline{};
  const bool is_saved_over = !of_named.id.empty() && of_named.began_path == path;
  int skipped = 0;
  const IsWanted is_of_line = [&](const PtDict& checkpoint) {
    const Timeline line = timeline_of(checkpoint);
    if (is_saved_over && line.id == of_named.id) return true;
    return name.empty() ? line.began_path == path : line.began_from == name;
  };
  if (auto point = newest(options.folder, is_of_line, console, skipped)) {
    console.line(
        fmt::format("this job began from {} before, and goes on; to begin there once more, set "
                    "/output_dir to another place",
                    options.choice));
    set_aside_newer(point->path, options, console);
    return point;
  }
  if (!named) named = read_point(options.choice);
  if (is_in(options.choice, options.folder)) {
    set_aside_newer(options.choice, options, console);
  } else {
    set_aside(options.folder, console);
  }
  named->timeline = begin_timeline(options.job, name, path);
  return named;
}

std::int64_t newest_step(const std::string& folder) {
  const std::vector<CheckpointDirectory::Entry> entries = checkpoints_in(folder);
  return entries.empty() ? -1 : entries.front().step;
}

std::string to_text(const Sight& sight) { return fmt::format("{} {}", sight.step, sight.host); }

Sight parse_sight(const std::string& text) {
  Sight sight;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, sight.step);
  if (error == std::errc() && rest != end) sight.host.assign(rest + 1, end);
  return sight;
}

/// What a job looks for where rank 0 has found nothing.
enum class Search { kNothing, kNewest, kOwn };

Search search_of(const ResumeOptions& options) {
  if (options.choice == "auto") return Search::kNewest;
  return options.choice == "never" && options.job.is_restart ? Search::kOwn : Search::kNothing;
}

/// The rank that reads, with its `point`; -1: there is nothing to go on from. Collective.
int agree_on_source(const Context& context, std::optional<ResumePoint>& point, const ResumeOptions& options,
                    Console& console) {
  const bool is_first = context.rank() == 0;
  // Rank 0 speaks for all: what /resume is elsewhere does not count.
  const std::string said =
      broadcast_bytes(context, std::to_string(point ? 0 : static_cast<int>(search_of(options))));
  const auto search = static_cast<Search>(std::stoi(said));
  if (search == Search::kNothing) return broadcast_bytes(context, point ? "yes" : "").empty() ? -1 : 0;
  const Sight mine{is_first ? -1 : newest_step(options.folder), host_name()};
  std::vector<Sight> by_rank;
  for (const std::string& text : all_gather_bytes(context, to_text(mine)))
    by_rank.push_back(parse_sight(text));
  const int source = choose_source(by_rank);
  if (source < 0) return source;
  std::optional<Exception> trouble;
  if (context.rank() == source) {
    try {
      point =
          search == Search::kNewest ? newest_of_all(options.folder, console) : newest_own(options, console);
    } catch (const Exception& exception) {
      trouble = exception;
    }
  }
  if (const auto shared = agree_on_error(context, trouble))
    throw trouble ? *trouble : consequence_of(*shared);
  const bool is_found = !broadcast_bytes(context, point ? "yes" : "", source).empty();
  if (is_found) {
    const Sight& theirs = by_rank[static_cast<std::size_t>(source)];
    console.line(fmt::format("rank 0 on {} has no checkpoint in {}; the one of rank {} on {} is taken",
                             by_rank.front().host, options.folder, source, theirs.host));
  }
  return is_found ? source : -1;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const ResumeOptions& options, Console& console) {
  if (options.choice == "auto") return newest_of_all(options.folder, console);
  if (options.choice == "never") return find_own_or_begin_anew(options, console);
  return find_line_or_begin_it(options, console);
}

int choose_source(const std::vector<Sight>& by_rank) {
  const auto found =
      std::max_element(by_rank.begin(), by_rank.end(),
                       [](const Sight& one, const Sight& other) { return one.step < other.step; });
  return found->step < 0 ? -1 : static_cast<int>(found - by_rank.begin());
}

std::optional<ResumePoint> share_resume_point(const Context& context, std::optional<ResumePoint> point,
                                              const ResumeOptions& options, Console& console) {
  if (context.world_size() == 1) return point;
  const int source = agree_on_source(context, point, options, console);
  if (source < 0) return std::nullopt;
  const bool is_source = context.rank() == source;
  std::string path = broadcast_bytes(context, is_source && point ? point->path : std::string(), source);
  if (path.empty()) return std::nullopt;
  const std::span<const std::byte> bytes = is_source ? point->file->bytes() : std::span<const std::byte>();
  const PtValue value = runtime::share_pt(context, bytes, path, source);
  if (is_source) return point;
  ResumePoint shared{.path = std::move(path), .content = value.as_dict()};
  shared.timeline = continued(shared.content);
  return shared;
}

}  // namespace ddprun::training
