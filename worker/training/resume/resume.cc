#include "worker/training/resume/resume.h"

#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/share_pt.h"
#include "worker/training/resume/output_folder.h"
#include <ddprun/collectives.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::training {

namespace fs = std::filesystem;

namespace {

/// The first of <stem>old-1, <stem>old-2 … that is free.
std::string free_name(const std::string& stem) {
  int number = 1;
  while (fs::exists(fmt::format("{}old-{}", stem, number))) ++number;
  return fmt::format("{}old-{}", stem, number);
}

/// The folder itself where `folder` is a link to one: what is written next is to be where that one was.
std::string real_folder(const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  return error ? folder : real.string();
}

/// Whether `path` lies there, whatever links lead to either.
bool is_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return fs::equivalent(fs::absolute(path).parent_path(), folder, error) ||
         fs::equivalent(real.parent_path(), folder, error);
}

/// The first `moved` of them are there then; none: nor is `aside`.
std::error_code move_to(const std::string& aside, const std::vector<CheckpointDirectory::Entry>& checkpoints,
                        std::size_t& moved) {
  std::error_code error, ignored;
  const bool is_made = fs::create_directories(aside, error);
  while (!error && moved < checkpoints.size()) {
    const fs::path path = checkpoints[moved].path;
    fs::rename(path, fs::path(aside) / path.filename(), error);
    moved += error ? 0 : 1;
  }
  if (moved == 0 && is_made) fs::remove(aside, ignored);
  return error;
}

/// What was moved from one to the other, and the names of both, outlast a loss of power: else what comes later might be
/// found among what was moved. As far as the file system can.
void sync_move(const std::string& folder, const std::string& aside) {
  const fs::path above = fs::path(folder).parent_path();
  for (const std::string& one : {aside, folder, above.string()}) static_cast<void>(runtime::sync_folder(one));
}

/// Beside the folder, or else in it: a mount point is another file system than what is beside it, and that may be
/// nobody's to write. `which` is what they are called.
void set_some_aside(const std::vector<CheckpointDirectory::Entry>& checkpoints, const std::string& folder,
                    std::string_view which, Console& console) {
  if (checkpoints.empty()) return;
  const std::string real = real_folder(folder);
  std::string aside = free_name(real + ".");
  std::size_t moved = 0;
  std::error_code error = move_to(aside, checkpoints, moved);
  if (error && moved == 0) {
    aside = free_name(real + "/");
    error = move_to(aside, checkpoints, moved);
  }
  if (error) {
    throw Exception(
        ErrorCode::kOs,
        fmt::format("cannot move {} of {} to {}: {}; move them away by hand, and start the job again", which,
                    folder, aside, error.message()));
  }
  sync_move(real, aside);
  console.line(fmt::format("{} were moved to {}", which, aside));
}

void set_aside(const std::string& folder, Console& console) {
  const std::vector<CheckpointDirectory::Entry> checkpoints = checkpoints_in(folder);
  if (checkpoints.empty()) return;
  constexpr std::string_view kWhich = "earlier checkpoints";
  const std::string real = real_folder(folder);
  const std::string aside = free_name(real + ".");
  std::error_code error;
  fs::rename(real, aside, error);
  if (error) return set_some_aside(checkpoints, folder, kWhich, console);
  fs::create_directories(real, error);  // a link to it leads there
  // The job goes on holding what it has there.
  fs::rename(fs::path(aside) / kLockFile, fs::path(real) / kLockFile, error);
  sync_move(real, aside);
  console.line(fmt::format("{} were moved to {}", kWhich, aside));
}

/// The checkpoints after `step`, from which the job goes on, are of a way that it leaves.
void set_aside_newer(std::int64_t step, const std::string& folder, Console& console) {
  std::vector<CheckpointDirectory::Entry> newer = checkpoints_in(folder);
  std::erase_if(newer, [&](const auto& entry) { return entry.step <= step; });
  set_some_aside(newer, folder, "later checkpoints", console);
}

Wanted line_begun_at(const std::string& path, const std::optional<ResumePoint>& named,
                     const JobIdentity& job) {
  Wanted wanted{.kind = Wanted::Kind::kBegunAt, .job = job.earlier, .began_path = kept_path(path)};
  if (!named) return wanted;
  wanted.began_from = name_of(named->content);
  // A job that begins within its own folder may save over what it began from: then that one is of its line.
  const Timeline line = timeline_of(named->content);
  if (line.began_path == wanted.began_path) wanted.line = line.id;
  return wanted;
}

}  // namespace

void ResumeSearch::look() {
  const bool is_path = options_.choice != "auto" && options_.choice != "never";
  if (!options_.own.id.empty()) {
    wanted_ = {.kind = Wanted::Kind::kOfLine,
               .line = options_.own.id,
               .began_from = options_.own.began_from,
               .began_path = options_.own.began_path};
  } else if (!is_path && !options_.job.earlier.empty()) {
    wanted_ = {.kind = Wanted::Kind::kOfJob, .job = options_.job.earlier};
  } else if (options_.choice == "auto") {
    wanted_.kind = Wanted::Kind::kAny;
  } else if (is_path) {
    std::error_code error;
    // A job that keeps few checkpoints may have removed the one that it began from.
    try {
      if (fs::exists(options_.choice, error)) named_ = read_point(options_.choice);
    } catch (const Exception&) {
      // It is read again where the job has nothing of its own; until then a damaged one is no end.
    }
    wanted_ = line_begun_at(options_.choice, named_, options_.job);
  }
  found_ = look_for(wanted_, options_.folder, console_);
}

std::optional<SharedError> ResumeSearch::settle() {
  seek();
  auto shared = agree_on_error(context_, trouble_);
  if (shared || source_ >= 0) return shared;
  // Rank 0 speaks for all.
  const bool may_be_any = options_.choice == "auto" && wanted_.kind == Wanted::Kind::kOfJob;
  if (broadcast_bytes(context_, may_be_any ? "yes" : "").empty()) return shared;
  seek_any();
  return agree_on_error(context_, trouble_);
}

void ResumeSearch::seek() {
  source_ = seek_newer(context_, wanted_, options_.folder, found_, trouble_, console_);
}

void ResumeSearch::seek_any() {
  wanted_ = {.kind = Wanted::Kind::kAny};
  if (found_.any) {
    found_.point = std::move(found_.any);
    found_.step = found_.step_of_any;
    found_.line = timeline_of(found_.point->content).id;
  }
  seek();
}

std::optional<SharedError> ResumeSearch::conclude() {
  if (context_.rank() == 0) {
    try {
      if (options_.own.id.empty()) {
        begin_or_go_on();
      } else {
        check_way_back();
      }
    } catch (const Exception& exception) {
      trouble_ = exception;
    }
  }
  return agree_on_error(context_, trouble_);
}

void ResumeSearch::check_way_back() const {
  int damaged = 0;
  for (const auto& [rank, passed] : found_.by_rank) damaged += passed.damaged;
  if (source_ >= 0 || damaged == 0) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("no checkpoint in {} to go back to can be read ({} tried); put "
                              "a whole one there, or start the job anew",
                              options_.folder, damaged));
}

void ResumeSearch::begin_or_go_on() {
  const bool is_found = source_ >= 0;
  const bool is_auto = options_.choice == "auto";
  const int damaged = possible_own_damaged(found_);
  // A restart has none but the job's own before it.
  if (!is_found && damaged > 0 && (is_auto || options_.job.is_restart)) {
    throw Exception(ErrorCode::kConfig,
                    fmt::format("no checkpoint in {} can be read ({} tried); put a whole one there, or {}",
                                options_.folder, damaged,
                                is_auto ? "start anew with --set /resume=never" : "start the job anew"));
  }
  warn_of_links();
  if (is_auto) {
    const bool is_own = wanted_.kind == Wanted::Kind::kOfJob;
    if (is_own && (source_ > 0 || found_.by_rank[0].of_another > 0)) move_what_is_left();
    return;
  }
  if (options_.choice == "never") return move_what_is_left();
  if (is_found) {
    console_.line(
        fmt::format("this job began from {} before, and goes on; to begin there once more, set "
                    "/output_dir to another place",
                    options_.choice));
    return move_what_is_left();
  }
  refuse_other_origin();
  if (!named_) {
    named_ = read_point(options_.choice);
    wanted_ = line_begun_at(options_.choice, named_, options_.job);
  }
  move_what_is_left();
  found_.point = std::move(named_);
  found_.point->timeline = begin_timeline(options_.job, wanted_.began_from, wanted_.began_path);
}

/// Whoever lost sight of what began there once may not mean to begin once more.
void ResumeSearch::refuse_other_origin() const {
  for (const auto& [rank, passed] : found_.by_rank) {
    if (passed.begun_otherwise.empty()) continue;
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}; go on with --set /resume=auto, or set /output_dir to another place to "
                                "begin from it",
                                passed.begun_otherwise));
  }
}

void ResumeSearch::warn_of_links() const {
  for (const auto& [rank, passed] : found_.by_rank) {
    if (passed.link.empty()) continue;
    console_.warning(fmt::format(
        "{}; if this job has checkpoints there, they are not seen: mount what belongs there, and start it "
        "anew",
        passed.link));
  }
}

void ResumeSearch::move_what_is_left() {
  const std::string& folder = options_.folder;
  if (source_ == 0) return set_aside_newer(found_.step, folder, console_);
  if (source_ > 0) {
    std::vector<CheckpointDirectory::Entry> others = checkpoints_in(folder);
    const std::int64_t begin = named_ ? step_in(folder, options_.choice).value_or(-1) : -1;
    std::erase_if(others, [&](const auto& entry) { return has_part(entry, begin); });
    return set_some_aside(others, folder, "checkpoints that are not of this job's line", console_);
  }
  if (!named_ || !is_in(options_.choice, folder)) return set_aside(folder, console_);
  if (const auto step = step_in(folder, options_.choice)) set_aside_newer(*step, folder, console_);
}

/// Whether it is of the line on which the job goes on, and not beyond where it does, or not after `begin`, the step
/// of the one where this began.
bool ResumeSearch::has_part(const CheckpointDirectory::Entry& entry, std::int64_t begin) const {
  try {
    const std::string line = timeline_of(read_point(entry.path).content).id;
    return (line == found_.line && entry.step <= found_.step) || entry.step <= begin;
  } catch (const Exception& exception) {
    if (exception.code() == ErrorCode::kNotFound) return true;  // removed meanwhile
    if (exception.code() != ErrorCode::kCorrupt) throw;
    return false;
  }
}

std::optional<ResumePoint> ResumeSearch::share() {
  const bool is_begun = !broadcast_bytes(context_, source_ < 0 && found_.point ? "yes" : "").empty();
  const int source = is_begun ? 0 : source_;
  if (source < 0) return std::nullopt;
  std::optional<ResumePoint> point;
  if (context_.rank() == source) point = std::move(found_.point);
  if (context_.world_size() > 1) {
    const std::string path = broadcast_bytes(context_, point ? point->path : std::string(), source);
    const std::span<const std::byte> bytes = point ? point->file->bytes() : std::span<const std::byte>();
    const PtValue value = runtime::share_pt(context_, bytes, path, source);
    if (!point) {
      point = ResumePoint{.path = path, .content = value.as_dict()};
      point->timeline = continued(point->content);
    }
  }
  point->file.reset();  // as large as the content
  point->timeline = of_this_job(std::move(point->timeline));
  return point;
}

std::int64_t ResumeSearch::step() const {
  return std::stoll(broadcast_bytes(context_, std::to_string(source_ < 0 ? -1 : found_.step)));
}

// Those that come are this job's. Who started the one before it does not come back.
Timeline ResumeSearch::of_this_job(Timeline line) const {
  const JobIdentity& job = options_.job;
  line.job = job.is_same_start ? name_of_both(line.job, job.name) : job.name;
  return line;
}

std::optional<ResumePoint> find_resume_point(const Context& context, const ResumeOptions& options,
                                             Console& console) {
  ResumeSearch search(context, options, console);
  fail_together(context, [&] {
    if (context.rank() == 0) search.look();
  });
  auto shared = search.settle();
  if (!shared) shared = search.conclude();
  if (shared) throw search.trouble() ? *search.trouble() : consequence_of(*shared);
  return search.share();
}

}  // namespace ddprun::training
