#pragma once

#include "worker/training/console.h"
#include <ddprun/checkpoint.h>
#include <ddprun/init.h>

#include <optional>
#include <string>
#include <vector>

namespace ddprun::training {

struct ResumeOptions {
  std::string folder;  ///< of the job's checkpoints
  std::string choice;  ///< the job file's "resume": "auto", "never" or a path
  /// Checkpoints of a restarted job are its own: whatever `choice` says, it goes on from the newest.
  bool is_restart = false;
};

/// A checkpoint that the job goes on from.
struct ResumePoint {
  std::string path;
  PtDict content;
};

/// All checkpoints of a folder, the best ones as well, newest first.
std::vector<CheckpointDirectory::Entry> checkpoints_in(const std::string& folder);

/// Decides what the job goes on from, and reads it. Rank 0 alone calls it.
///
/// A damaged newest checkpoint is passed over with a warning. When the job starts anew although checkpoints
/// lie in `folder`, or goes on from one elsewhere, `folder` is renamed to <folder>.old-N first; where it goes on
/// from one that is not the newest in `folder`, the later ones are moved there. So no later resume mixes the two;
/// nothing is deleted.
/// Errors  Exception: the named checkpoint cannot be read; all in the folder are damaged; the rename fails.
std::optional<ResumePoint> find_resume_point(const ResumeOptions& options, Console& console);

/// Rank 0's resume point on every rank, from rank 0's disk alone. `point` is looked at on rank 0. Collective.
std::optional<ResumePoint> share_resume_point(const Context& context, std::optional<ResumePoint> point);

}  // namespace ddprun::training
