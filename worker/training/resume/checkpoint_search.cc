#include "worker/training/resume/checkpoint_search.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/host_name.h"
#include "rendezvous/base/printable.h"
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
  Result<runtime::WholeFile> file = runtime::WholeFile::read(path);
  if (!file) throw Exception(file.error().code(), file.error().message());
  ResumePoint point{.path = path, .file = std::make_shared<runtime::WholeFile>(std::move(*file))};
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

std::optional<std::int64_t> step_in(const std::string& folder, const std::string& path) {
  std::error_code error;
  for (const CheckpointDirectory::Entry& entry : checkpoints_in(folder)) {
    if (fs::equivalent(entry.path, path, error)) return entry.step;
  }
  return std::nullopt;
}

bool is_wanted(const Wanted& wanted, const Timeline& line) {
  switch (wanted.kind) {
    case Wanted::Kind::kNone:
      return false;
    case Wanted::Kind::kAny:
      return true;
    case Wanted::Kind::kOfJob:
      return is_of_job(line, wanted.job);
    case Wanted::Kind::kOfLine:
      return line.id == wanted.line;
    case Wanted::Kind::kBegunAt:
      if (!wanted.line.empty() && line.id == wanted.line) return true;
      if (is_of_job(line, wanted.job) && line.began_path == wanted.began_path) return true;
      return wanted.began_from.empty() ? line.began_path == wanted.began_path
                                       : line.began_from == wanted.began_from;
  }
  return false;
}

bool is_begun_otherwise(const Wanted& wanted, const Timeline& line) {
  return wanted.kind == Wanted::Kind::kBegunAt && line.began_path == wanted.began_path &&
         !is_wanted(wanted, line);
}

bool is_origin(const Wanted& wanted, const ResumePoint& checkpoint) {
  if (!timeline_of(checkpoint.content).id.empty())
    return !wanted.began_from.empty() && name_of(checkpoint.content) == wanted.began_from;
  if (wanted.began_path.empty()) return false;
  std::error_code error;
  return kept_path(checkpoint.path) == wanted.began_path ||
         fs::equivalent(checkpoint.path, wanted.began_path, error);
}

std::string kept_path(const std::string& path) {
  return printable(fs::absolute(path).lexically_normal().string(), std::string::npos);
}

int possible_own_damaged(const Found& found) {
  int damaged = 0;
  for (const auto& [rank, passed] : found.by_rank) {
    if (passed.of_another == 0) damaged += passed.damaged;
  }
  return damaged;
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

/// What a checkpoint is to those who look for one.
enum class Use { kWanted, kOfThisJob, kOfAnother };

/// What is wrong with one that is_begun_otherwise().
std::string tell_other_origin(const Wanted& wanted, const ResumePoint& point) {
  const std::string name = timeline_of(point.content).began_from;
  return fmt::format("{} is of a job that began from {} when {} was there, and now {} is", point.path,
                     wanted.began_path, name.empty() ? "one without a name" : name, wanted.began_from);
}

/// Of the one of `folder` where the wanted line began.
std::optional<std::int64_t> step_of_origin(const Wanted& wanted, const std::string& folder) {
  return wanted.kind == Wanted::Kind::kBegunAt ? step_in(folder, wanted.began_path) : std::nullopt;
}

/// `origin`: step_of_origin() of its folder.
Use use_of(const Wanted& wanted, const ResumePoint& point, std::int64_t step,
           std::optional<std::int64_t> origin) {
  const Timeline line = timeline_of(point.content);
  if (is_wanted(wanted, line)) return Use::kWanted;
  if (wanted.kind == Wanted::Kind::kOfLine && is_origin(wanted, point)) return Use::kWanted;
  // What lies before the one that a line began from stays beside it.
  const bool is_before_it =
      (origin && step <= *origin) || (wanted.kind == Wanted::Kind::kBegunAt &&
                                      line.id == wanted.began_from.substr(0, wanted.began_from.rfind('/')));
  return is_before_it ? Use::kOfThisJob : Use::kOfAnother;
}

}  // namespace

Found look_for(const Wanted& wanted, const std::string& folder, Console& console) {
  Found found;
  if (wanted.kind == Wanted::Kind::kNone) return found;
  PassedOver& passed = found.by_rank[0];
  const std::optional<std::int64_t> origin = step_of_origin(wanted, folder);
  const auto read = [&](const CheckpointDirectory::Entry& entry) -> std::optional<ResumePoint> {
    try {
      ResumePoint point = read_point(entry.path);
      const Use use = use_of(wanted, point, entry.step, origin);
      if (use == Use::kWanted) {
        found.step = entry.step;
        found.line = timeline_of(point.content).id;
        return point;
      }
      if (use == Use::kOfAnother) ++passed.of_another;
      if (is_begun_otherwise(wanted, timeline_of(point.content)) && passed.begun_otherwise.empty())
        passed.begun_otherwise = tell_other_origin(wanted, point);
      if (wanted.kind == Wanted::Kind::kOfJob && !found.any) {
        found.any = std::move(point);
        found.step_of_any = entry.step;
      }
    } catch (const Exception& exception) {
      if (exception.code() != ErrorCode::kCorrupt) throw;
      if (!origin || entry.step >= *origin) ++passed.damaged;
      warn_of_damage(console, entry.step, exception.what());
    }
    found.passed.push_back(identity_of(entry.path));
    return std::nullopt;
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

std::string to_text(const Sight& sight) {
  return fmt::format("{} {}\n{}", sight.step, sight.host, sight.link);
}

Sight parse_sight(const std::string& text) {
  Sight sight;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, sight.step);
  if (error != std::errc() || rest == end) return sight;
  const std::string_view words(rest + 1, end);
  sight.host = words.substr(0, words.find('\n'));
  sight.link = words.substr(std::min(words.size(), sight.host.size() + 1));
  return sight;
}

/// What the rank that has read a checkpoint says of it to the others.
struct CheckpointAnswer {
  enum class What { kTaken, kDamaged, kOfThisJob, kOfAnother, kGone, kFailed };
  What what = What::kFailed;
  std::string words{};  ///< its path; of one that cannot be read, why
  std::string identity{};
  std::string line{};
  std::string begun_otherwise{};
};

std::vector<std::string> to_words(const CheckpointAnswer& answer) {
  return {std::to_string(static_cast<int>(answer.what)), answer.words, answer.identity, answer.line,
          answer.begun_otherwise};
}

CheckpointAnswer read_answer(const std::vector<std::string>& words) {
  return {static_cast<CheckpointAnswer::What>(std::stoi(words.at(0))), words.at(1), words.at(2), words.at(3),
          words.at(4)};
}

/// The checkpoints of this host that are newer than rank 0's, newest first, without those that it has passed over.
class Candidates {
 public:
  Candidates() = default;
  /// Errors  Exception kOs: the folder cannot be read; that of a link to nothing is empty.
  Candidates(const std::string& folder, std::int64_t after, const std::vector<std::string>& passed) {
    link_ = runtime::link_to_nothing(folder).value_or("");
    if (!link_.empty()) return;
    for (CheckpointDirectory::Entry& entry : checkpoints_in(folder)) {
      if (entry.step > after) entries_.push_back(std::move(entry));
    }
    for (const std::string& one : passed) drop(one);
  }
  [[nodiscard]] std::int64_t newest_step() const { return entries_.empty() ? -1 : entries_.front().step; }
  [[nodiscard]] const CheckpointDirectory::Entry& newest() const { return entries_.front(); }
  [[nodiscard]] const std::string& link() const { return link_; }
  void drop(const std::string& identity) {
    std::erase_if(entries_, [&](const auto& entry) { return identity_of(entry.path) == identity; });
  }

 private:
  std::vector<CheckpointDirectory::Entry> entries_;
  std::string link_;
};

CheckpointAnswer::What what_of(Use use) {
  if (use == Use::kWanted) return CheckpointAnswer::What::kTaken;
  return use == Use::kOfThisJob ? CheckpointAnswer::What::kOfThisJob : CheckpointAnswer::What::kOfAnother;
}

/// Reads `newest` of `folder`, to `found` if it is wanted. `trouble`: what else than damage or its end keeps it from
/// being read.
CheckpointAnswer judge(const Wanted& wanted, const std::string& folder,
                       const CheckpointDirectory::Entry& newest, Found& found,
                       std::optional<Exception>& trouble) {
  using What = CheckpointAnswer::What;
  const std::string identity = identity_of(newest.path);
  try {
    ResumePoint point = read_point(newest.path);
    const Use use = use_of(wanted, point, newest.step, step_of_origin(wanted, folder));
    const Timeline line = timeline_of(point.content);
    const std::string other = is_begun_otherwise(wanted, line) ? tell_other_origin(wanted, point) : "";
    if (use == Use::kWanted) found.point = std::move(point);
    return {what_of(use), newest.path, identity, line.id, other};
  } catch (const Exception& exception) {
    if (exception.code() == ErrorCode::kCorrupt) return {What::kDamaged, exception.what(), identity};
    if (exception.code() == ErrorCode::kNotFound) return {What::kGone, exception.what(), identity};
    trouble = exception;
    return {What::kFailed, exception.what(), identity};
  }
}

}  // namespace

int seek_newer(const Context& context, Wanted wanted, const std::string& folder, Found& found,
               std::optional<Exception>& trouble, Console& console) {
  using What = CheckpointAnswer::What;
  const bool is_first = context.rank() == 0;
  const int own = broadcast_bytes(context, found.point ? "yes" : "").empty() ? -1 : 0;
  // Rank 0 speaks for all: what /resume is elsewhere does not count.
  const bool is_narrowed = is_first && found.point && wanted.kind == Wanted::Kind::kAny;
  if (is_narrowed) wanted = {.kind = Wanted::Kind::kOfLine, .line = found.line};
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
    const Sight mine{is_first ? -1 : candidates.newest_step(), host_name(), candidates.link()};
    for (const std::string& text : all_gather_bytes(context, to_text(mine))) {
      by_rank.push_back(parse_sight(text));
      const Sight& theirs = by_rank.back();
      if (!theirs.link.empty()) {
        const auto rank = static_cast<int>(by_rank.size()) - 1;
        found.by_rank[rank].link = fmt::format("rank {} on {}: {}", rank, theirs.host, theirs.link);
      }
    }
    const int source = choose_source(by_rank);
    if (source < 0) return own;
    CheckpointAnswer answer;
    if (context.rank() == source) answer = judge(wanted, folder, candidates.newest(), found, trouble);
    answer = read_answer(broadcast_bytes_list(context, to_words(answer), source));
    const Sight& theirs = by_rank[static_cast<std::size_t>(source)];
    if (answer.what == What::kFailed) return own;
    if (answer.what == What::kTaken) {
      found.step = theirs.step;
      found.line = answer.line;
      if (context.rank() != source) found.point.reset();
      const std::string& here = by_rank.front().host;
      console.line(
          own < 0
              ? fmt::format("rank 0 on {} has no checkpoint{} in {}; the one of rank {} on {} is taken", here,
                            wanted.kind == Wanted::Kind::kAny ? "" : " of this job", folder, source,
                            theirs.host)
              : fmt::format("rank 0 on {} has the checkpoint of step {} in {}; the one of step {} of rank {} "
                            "on {} is newer, and is taken",
                            here, own_step, folder, theirs.step, source, theirs.host));
      return source;
    }
    PassedOver& counted = found.by_rank[source];
    if (counted.begun_otherwise.empty() && !answer.begun_otherwise.empty())
      counted.begun_otherwise = fmt::format("on {}: {}", theirs.host, answer.begun_otherwise);
    if (answer.what == What::kDamaged) {
      ++counted.damaged;
      found.passed.push_back(answer.identity);
      warn_of_damage(console, theirs.step, fmt::format("on {}: {}", theirs.host, answer.words));
    } else if (answer.what == What::kOfAnother) {
      ++counted.of_another;
      if (is_narrowed) {
        console.warning(fmt::format(
            "rank {} on {} has the checkpoint of step {} of another line, {}; it is not taken; to go "
            "on from it, name it with --set /resume=PATH",
            source, theirs.host, theirs.step, answer.words));
      }
    }
    passed.push_back(answer.identity);
    candidates.drop(answer.identity);
    if (answer.what == What::kGone && context.rank() == source) list();
  }
}

}  // namespace ddprun::training
