#pragma once

#include "worker/runtime/checkpoint/mapped_file.h"
#include "worker/training/console.h"
#include "worker/training/timeline.h"
#include <ddprun/checkpoint.h>
#include <ddprun/init.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

struct ResumeOptions {
  std::string folder;  ///< of the job's checkpoints
  std::string choice;  ///< the job file's "resume": "auto", "never" or a path
  JobIdentity job{};
};

/// A checkpoint that the job goes on from.
struct ResumePoint {
  std::string path;
  PtDict content;
  Timeline timeline{};                          ///< of the checkpoints that follow
  std::shared_ptr<runtime::MappedFile> file{};  ///< where it was read, for the other ranks
};

/// All checkpoints of a folder, the best ones as well, newest first.
std::vector<CheckpointDirectory::Entry> checkpoints_in(const std::string& folder);

/// Decides what the job goes on from, and reads it. One rank alone calls it.
///
/// A damaged newest checkpoint is passed over with a warning. Whatever else lies in the folder, a job stays on its own
/// line of checkpoints: one that /resume told to begin from a checkpoint goes on from the newest of the line that
/// began there, the next time that it is started like that; one that shall begin anew goes on from its own at a
/// restart. When a line begins although checkpoints lie in `folder`, `folder` is renamed to <folder>.old-N first; where
/// it begins with one that is not the newest in `folder`, the later ones are moved there. Nothing is deleted.
/// Errors  Exception: the named checkpoint cannot be read; all in the folder are damaged; the rename fails.
std::optional<ResumePoint> find_resume_point(const ResumeOptions& options, Console& console);

/// What a rank sees of the job's checkpoints on its host.
struct Sight {
  std::int64_t step = -1;  ///< of the newest; -1: none
  std::string host;
};

/// The lowest rank with the newest checkpoint; -1: nobody has one. Pure.
[[nodiscard]] int choose_source(const std::vector<Sight>& by_rank);

/// The resume point on every rank, read once, by one of them. `point` is looked at on rank 0; where its host has no
/// checkpoint and the job wants the newest, another rank's is taken, and `console` says so. Collective.
/// Errors  Exception, on every rank: that one cannot be read.
std::optional<ResumePoint> share_resume_point(const Context& context, std::optional<ResumePoint> point,
                                              const ResumeOptions& options, Console& console);

}  // namespace ddprun::training
