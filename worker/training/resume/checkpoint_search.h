#pragma once

#include "worker/runtime/checkpoint/whole_file.h"
#include "worker/training/observers/console.h"
#include "worker/training/state/timeline.h"
#include <ddprun/checkpoint.h>
#include <ddprun/init.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

/// A checkpoint that the job goes on from.
struct ResumePoint {
  std::string path;
  PtDict content;
  Timeline timeline{};                         ///< of the checkpoints that follow; rank 0's counts
  std::shared_ptr<runtime::WholeFile> file{};  ///< its bytes, for the other ranks
};

/// Errors  Exception: kCorrupt, kNotFound, kOs.
ResumePoint read_point(const std::string& path);

/// All checkpoints of a folder, the best ones as well, newest first; none where there is no such folder.
/// Errors  Exception kOs: it cannot be read.
std::vector<CheckpointDirectory::Entry> checkpoints_in(const std::string& folder);

/// Of the one of `folder` that is `path`, whatever links lead to either; nullopt: it is none of them. Errors: as there.
std::optional<std::int64_t> step_in(const std::string& folder, const std::string& path);

/// Which checkpoints a job goes on from.
struct Wanted {
  enum class Kind {
    kNone,
    kAny,
    kOfJob,   ///< those whose line is of `job`
    kOfLine,  ///< those whose line's id is `line`, and the one that it began from
    /// Those whose line began from `began_from` ("": from `began_path`), or is `line`, if that is not "", or is of
    /// `job` and began from `began_path`, whatever was there.
    kBegunAt,
  };
  Kind kind = Kind::kNone;
  std::string job{}, line{}, began_from{}, began_path{};

  bool operator==(const Wanted&) const = default;
};
[[nodiscard]] bool is_wanted(const Wanted& wanted, const Timeline& line);
/// Whether the line began where a wanted one would, when another checkpoint was there.
[[nodiscard]] bool is_begun_otherwise(const Wanted& wanted, const Timeline& line);
/// Whether a line that is wanted began from `checkpoint`: its name is `began_from`, or it says nothing of its line and
/// lies at `began_path`, whatever links lead there.
[[nodiscard]] bool is_origin(const Wanted& wanted, const ResumePoint& checkpoint);

/// As a checkpoint keeps it, whose texts are UTF-8, as paths need not be.
std::string kept_path(const std::string& path);

/// As rank 0 tells it to the others, and back.
[[nodiscard]] std::vector<std::string> to_words(const Wanted& wanted);
[[nodiscard]] Wanted read_wanted(const std::vector<std::string>& words);

/// What a rank has passed over in the folder of its host.
struct PassedOver {
  /// The link to nothing that stands in the place of the folder there, and the host, in words; empty: none does.
  std::string link{};
  /// The newest one that is_begun_otherwise(), in words; empty: there is none.
  std::string begun_otherwise{};
  /// On rank 0's host without those before the one of the folder where the wanted line began: its own come after it.
  int damaged = 0;
  /// Whole, and of a line that is neither wanted nor the one that a wanted one began from; without those of the
  /// folder up to the one where it began, which stay beside it.
  int of_another = 0;
};

/// What a look at the checkpoints of a host has found.
struct Found {
  std::optional<ResumePoint> point;
  std::int64_t step = -1;           ///< its step
  std::string line{};               ///< the id of its line
  std::vector<std::string> passed;  ///< the files (identity_of) that are damaged or not wanted
  std::map<int, PassedOver> by_rank{};
  /// Where those of a job are wanted, and there is none: the newest whole one, and its step.
  std::optional<ResumePoint> any{};
  std::int64_t step_of_any = -1;
};

/// How many damaged ones may be the job's own: of those beside whole ones of another job none is, because a job sets
/// these aside before it writes. Pure.
[[nodiscard]] int possible_own_damaged(const Found& found);

/// A file, wherever it is seen from: on a disk that several hosts share it is the same one.
std::string identity_of(const std::string& path);

/// The newest wanted one of this host; `console` is warned of damaged ones.
/// Errors  Exception: the folder cannot be read, or one cannot be opened.
Found look_for(const Wanted& wanted, const std::string& folder, Console& console);

/// What a rank sees of the job's checkpoints on its host.
struct Sight {
  std::int64_t step = -1;  ///< of the newest; -1: none
  std::string host;
  std::string link{};  ///< what link to nothing stands in the place of the folder, in words; empty: none
};

/// The lowest rank with the newest checkpoint; -1: nobody has one. Pure.
[[nodiscard]] int choose_source(const std::vector<Sight>& by_rank);

/// The rank whose host has the newest wanted checkpoint. `found` is rank 0's, on rank 0; where another rank has a
/// newer one, it is in that one's `found` afterwards, and `found.step` and `found.line` are its step and line on
/// every rank. `console` tells why it is taken, and which are passed over, which rank 0's `found` counts; damaged
/// ones are in `found.passed` then, and of those of another line it tells only where any would do. One that is
/// removed meanwhile is none, and that rank lists its folder again. Where any would do, and rank 0 has one, only
/// those of its line are newer. Where the folder of another rank is a link to nothing, that rank has none: it may
/// never write there. Collective. Returns -1: nobody has one. Errors: the communication's; and `trouble`: this rank's
/// folder or file cannot be read.
int seek_newer(const Context& context, Wanted wanted, const std::string& folder, Found& found,
               std::optional<Exception>& trouble, Console& console);

}  // namespace ddprun::training
