#pragma once

#include "worker/training/resume/checkpoint_search.h"
#include <ddprun/fail_together.h>

#include <optional>
#include <string>

namespace ddprun::training {

struct ResumeOptions {
  std::string folder;  ///< of the job's checkpoints
  std::string choice;  ///< the job file's "resume": "auto", "never" or a path
  JobIdentity job{};
  /// Of a job that is under way, and goes back: the only line that counts, with what it began from. Nothing is moved
  /// then, and `choice` says nothing. Without an id: the job starts.
  Timeline own{};
};

/// What a job goes on from. In this order: look() on rank 0 alone, settle(), conclude() and share() on every rank; a
/// job that goes on from something newer leaves out the last two.
///
/// A damaged newest checkpoint is passed over with a warning. Whatever else lies in the folder, a job stays on its
/// own line of checkpoints: one that /resume told to begin from a checkpoint goes on from the newest of the line that
/// began there, the next time that it is started like that, and at a restart also where another one is at that path
/// now; one that shall begin anew goes on from its own at a restart, and so does one with /resume=auto, which else
/// takes the newest, whatever its line. Where ranks have disks of their own, the newest of the line counts, whichever
/// of them has it; where any would do, it is the line of rank 0's newest, if rank 0 has one. Where the folder of
/// another rank is a link to nothing, nothing of the job is there, and each start says so.
///
/// When a line begins although checkpoints lie in `folder` on rank 0's host, `folder` is renamed to <folder>.old-N
/// first; where the job goes on with one that is not the newest there, the later ones are moved, and where it goes on
/// with one of another rank's disk, all that are of another line: what a job keeps is counted in `folder`. Where
/// nothing can be moved to <folder>.old-N, as from a mount point, checkpoints are moved to <folder>/old-N, which no
/// listing enters. With /resume=auto nothing is moved but by a restart that leaves what is not the job's. Nothing is
/// deleted.
class ResumeSearch {
 public:
  /// Both outlive it.
  ResumeSearch(const Context& context, ResumeOptions options, Console& console)
      : context_(context), options_(std::move(options)), console_(console) {}

  /// Looks on rank 0's host. Errors: Exception: a checkpoint cannot be opened, or a named one be read.
  void look();

  /// Agrees with the other ranks on the job's own newest one. What keeps the job from going on, if something does; then
  /// trouble() is this rank's own: one that is newer elsewhere cannot be opened. Collective.
  std::optional<SharedError> settle();
  /// Moves away what the job leaves. The same: the named checkpoint cannot be read; all of the job's own are damaged,
  /// as far as one that is damaged can be its own (possible_own_damaged; where a job goes back, any can); it has none
  /// of its own, and one is there that began at the same path from another checkpoint; what it leaves can be moved
  /// neither beside the folder nor in it. Collective.
  std::optional<SharedError> conclude();
  [[nodiscard]] const std::optional<Exception>& trouble() const { return trouble_; }

  /// On every rank what one of them has read; nullopt: the job begins. Collective.
  std::optional<ResumePoint> share();

  /// The step of the job's own newest checkpoint, which share() gives; -1: it has none. After settle(). Collective.
  [[nodiscard]] std::int64_t step() const;
  /// `line`, on which this job goes on.
  [[nodiscard]] Timeline of_this_job(Timeline line) const;

 private:
  void seek();
  /// A restart has found nothing of its job, and takes what a start would.
  void seek_any();
  void begin_or_go_on();
  void check_way_back() const;
  void warn_of_links() const;
  void move_what_is_left();
  [[nodiscard]] bool has_part(const CheckpointDirectory::Entry& entry, std::int64_t begin) const;
  void refuse_other_origin() const;

  const Context& context_;
  const ResumeOptions options_;
  Console& console_;
  Wanted wanted_;
  std::optional<ResumePoint> named_;  ///< on rank 0: what /resume names
  Found found_;
  int source_ = -1;
  std::optional<Exception> trouble_;
};

/// All of that. Collective. Errors: Exception, on every rank.
std::optional<ResumePoint> find_resume_point(const Context& context, const ResumeOptions& options,
                                             Console& console);

}  // namespace ddprun::training
