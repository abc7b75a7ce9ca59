#include "worker/training/checkpoint_search.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/host_name.h"
#include "worker/runtime/checkpoint/best_checkpoints.h"
#include "worker/runtime/checkpoint/folder_listing.h"
#include "worker/runtime/checkpoint/live_folder.h"
#include "worker/runtime/throw_error.h"
#include <ddprun/collectives.h>
#include <ddprun/pt_file.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::training {

namespace fs = std::filesystem;

namespace {

constexpr int kAnyKeep = 1;  // this directory is only read

}  // namespace

ResumePoint read_point(const std::string& path) {
  Result<runtime::MappedFile> file = runtime::MappedFile::open(path);
  if (!file) throw Exception(file.error().code(), file.error().message());
  ResumePoint point{.path = path, .file = std::make_shared<runtime::MappedFile>(std::move(*file))};
  point.content = parse_pt(point.file->bytes(), path).as_dict();
  point.timeline = continued(point.content);
  return point;
}

std::vector<CheckpointDirectory::Entry> checkpoints_in(const std::string& folder) {
  std::vector<CheckpointDirectory::Entry> entries = CheckpointDirectory(folder, kAnyKeep).list();
  const auto best = runtime::value_or_throw(runtime::files_in(
      folder, [](std::string_view name) { return runtime::step_of_best(name).has_value(); }));
  for (const std::string& name : best)
    entries.push_back({*runtime::step_of_best(name), (fs::path(folder) / name).string()});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& one, const auto& other) { return one.step > other.step; });
  return entries;
}

bool is_wanted(const Wanted& wanted, const Timeline& line) {
  switch (wanted.kind) {
    case Wanted::Kind::kNone:
      return false;
    case Wanted::Kind::kAny:
      return true;
    case Wanted::Kind::kOfJob:
      return is_of_job(line, {.name = wanted.job});
    case Wanted::Kind::kOfLine:
      return line.id == wanted.line;
    case Wanted::Kind::kBegunAt:
      if (!wanted.line.empty() && line.id == wanted.line) return true;
      return wanted.began_from.empty() ? line.began_path == wanted.began_path
                                       : line.began_from == wanted.began_from;
  }
  return false;
}

std::vector<std::string> to_words(const Wanted& wanted) {
  return {std::to_string(static_cast<int>(wanted.kind)), wanted.job, wanted.line, wanted.began_from,
          wanted.began_path};
}

Wanted read_wanted(const std::vector<std::string>& words) {
  return {.kind = static_cast<Wanted::Kind>(std::stoi(words.at(0))),
          .job = words.at(1),
          .line = words.at(2),
          .began_from = words.at(3),
          .began_path = words.at(4)};
}

std::string identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path;
  return fmt::format("{} {} {}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

namespace {

void warn_of_damage(Console& console, std::int64_t step, const std::string& why) {
  console.warning(fmt::format("checkpoint of step {} is passed over: {}", step, why));
}

/// Its point, if it is wanted. Errors: Exception; kCorrupt: it is damaged.
std::optional<ResumePoint> read_wanted_point(const Wanted& wanted, const std::string& path) {
  ResumePoint point = read_point(path);
  if (!is_wanted(wanted, timeline_of(point.content))) return std::nullopt;
  return point;
}

}  // namespace

Found look_for(const Wanted& wanted, const std::string& folder, Console& console) {
  Found found;
  if (wanted.kind == Wanted::Kind::kNone) return found;
  const auto read = [&](const CheckpointDirectory::Entry& entry) {
    std::optional<ResumePoint> point;
    try {
      point = read_wanted_point(wanted, entry.path);
    } catch (const Exception& exception) {
      if (exception.code() != ErrorCode::kCorrupt) throw;
      ++found.damaged;
      warn_of_damage(console, entry.step, exception.what());
    }
    if (point) {
      found.step = entry.step;
    } else {
      found.passed.push_back(identity_of(entry.path));
    }
    return point;
  };
  found.point = runtime::first_of_live_folder([&] { return checkpoints_in(folder); }, read);
  return found;
}

int choose_source(const std::vector<Sight>& by_rank) {
  const auto found =
      std::max_element(by_rank.begin(), by_rank.end(),
                       [](const Sight& one, const Sight& other) { return one.step < other.step; });
  return found->step < 0 ? -1 : static_cast<int>(found - by_rank.begin());
}

namespace {

std::string to_text(const Sight& sight) { return fmt::format("{} {}", sight.step, sight.host); }

Sight parse_sight(const std::string& text) {
  Sight sight;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, sight.step);
  if (error == std::errc() && rest != end) sight.host.assign(rest + 1, end);
  return sight;
}

/// What the rank that has read a checkpoint says of it.
constexpr const char* kTaken = "taken";
constexpr const char* kDamaged = "damaged";
constexpr const char* kOfAnother = "of another line";
constexpr const char* kGone = "gone";
constexpr const char* kFailed = "failed";

/// The checkpoints of this host that are newer than rank 0's, newest first, without those that it has passed over.
class Candidates {
 public:
  Candidates() = default;
  /// Errors  Exception kOs: the folder cannot be read.
  Candidates(const std::string& folder, std::int64_t after, const std::vector<std::string>& passed) {
    for (CheckpointDirectory::Entry& entry : checkpoints_in(folder)) {
      if (entry.step > after) entries_.push_back(std::move(entry));
    }
    for (const std::string& one : passed) drop(one);
  }
  [[nodiscard]] std::int64_t newest_step() const { return entries_.empty() ? -1 : entries_.front().step; }
  [[nodiscard]] const CheckpointDirectory::Entry& newest() const { return entries_.front(); }
  void drop(const std::string& identity) {
    std::erase_if(entries_, [&](const auto& entry) { return identity_of(entry.path) == identity; });
  }

 private:
  std::vector<CheckpointDirectory::Entry> entries_;
};

}  // namespace

int seek_newer(const Context& context, Wanted wanted, const std::string& folder, Found& found,
               std::optional<Exception>& trouble, Console& console) {
  const bool is_first = context.rank() == 0;
  const int own = broadcast_bytes(context, found.point ? "yes" : "").empty() ? -1 : 0;
  // Rank 0 speaks for all: what /resume is elsewhere does not count.
  if (is_first && found.point && wanted.kind == Wanted::Kind::kAny)
    wanted = {.kind = Wanted::Kind::kOfLine, .line = timeline_of(found.point->content).id};
  wanted = read_wanted(broadcast_bytes_list(context, to_words(wanted)));
  if (wanted.kind == Wanted::Kind::kNone || context.world_size() == 1) return own;
  const std::int64_t own_step = std::stoll(broadcast_bytes(context, std::to_string(found.step)));
  std::vector<std::string> passed = broadcast_bytes_list(context, found.passed);
  Candidates candidates;
  const auto list = [&] {
    try {
      candidates = Candidates(folder, own_step, passed);
    } catch (const Exception& exception) {
      candidates = Candidates();
      trouble = exception;  // the others are told when all have looked
    }
  };
  list();
  while (true) {
    std::vector<Sight> by_rank;
    const Sight mine{is_first ? -1 : candidates.newest_step(), host_name()};
    for (const std::string& text : all_gather_bytes(context, to_text(mine)))
      by_rank.push_back(parse_sight(text));
    const int source = choose_source(by_rank);
    if (source < 0) return own;
    std::vector<std::string> verdict;
    if (context.rank() == source) {
      const CheckpointDirectory::Entry newest = candidates.newest();
      const std::string identity = identity_of(newest.path);
      try {
        found.point = read_wanted_point(wanted, newest.path);
        found.step = newest.step;
        verdict = {found.point ? kTaken : kOfAnother, newest.path, identity};
      } catch (const Exception& exception) {
        const char* const what = exception.code() == ErrorCode::kCorrupt    ? kDamaged
                                 : exception.code() == ErrorCode::kNotFound ? kGone
                                                                            : kFailed;
        if (what == kFailed) trouble = exception;
        verdict = {what, exception.what(), identity};
      }
    }
    verdict = broadcast_bytes_list(context, verdict, source);
    const std::string& what = verdict.at(0);
    const Sight& theirs = by_rank[static_cast<std::size_t>(source)];
    if (what == kFailed) return own;
    if (what == kTaken) {
      found.step = theirs.step;
      if (context.rank() != source) found.point.reset();
      const std::string& here = by_rank.front().host;
      console.line(
          own < 0
              ? fmt::format("rank 0 on {} has no checkpoint in {}; the one of rank {} on {} is taken", here,
                            folder, source, theirs.host)
              : fmt::format("rank 0 on {} has the checkpoint of step {} in {}; the one of step {} of rank {} "
                            "on {} is newer, and is taken",
                            here, own_step, folder, theirs.step, source, theirs.host));
      return source;
    }
    if (what == kDamaged) {
      if (is_first) ++found.damaged;
      warn_of_damage(console, theirs.step, verdict.at(1));
    } else if (what == kOfAnother && wanted.kind == Wanted::Kind::kOfLine) {
      console.warning(fmt::format(
          "rank {} on {} has the checkpoint of step {} of another line, {}; it is not taken; to go "
          "on from it, name it with --set /resume=PATH",
          source, theirs.host, theirs.step, verdict.at(1)));
    }
    passed.push_back(verdict.at(2));
    candidates.drop(verdict.at(2));
    if (what == kGone && context.rank() == source) list();
  }
}

}  // namespace ddprun::training
