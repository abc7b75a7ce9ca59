#pragma once

#include <ddprun/pt_value.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::training {

/// The line of checkpoints that one belongs to: what a job wrote, over all its restarts and resumes, since it began
/// from nothing or from a checkpoint that it was told to begin from. Each checkpoint says it of itself.
struct Timeline {
  std::string id;          ///< drawn when the line began; empty: of a checkpoint that says nothing of it
  std::string job;         ///< whose it is (JobIdentity::name); empty: not known
  std::string began_from;  ///< name_of the checkpoint that /resume named then; empty: it began from nothing
  std::string began_path;  ///< and its path
  std::string continues;   ///< name_of the checkpoint that the process which wrote this one went on from

  bool operator==(const Timeline&) const = default;
};

/// Who a job is, from one start of its workers to the next.
struct JobIdentity {
  /// What its checkpoints say, parts with "+" between them: Slurm's number, the coordinator, and what has started
  /// the ranks of each node. The id of the rendezvous is none: who starts the job by hand gives the same one again.
  /// Empty: not known.
  std::string name;
  /// Of these, those that an earlier start of it had as well, if it is a restart: all when Slurm has queued it again,
  /// else its coordinator and launchers, since an allocation may run several jobs.
  std::string earlier{};
  bool is_restart = false;     ///< the launcher has started the workers before, or Slurm the job
  bool is_same_start = false;  ///< the launcher has
};

/// From the variables SLURM_JOB_ID and SLURM_RESTART_COUNT ("" where not set), what tells the launcher of each rank
/// from others, and how often the launcher has restarted the workers. Pure.
struct JobMarks {
  std::string slurm_job{}, slurm_restarts{};
  std::string coordinator{};  ///< that its nodes have met at; "": it has one node, or another launcher
  std::vector<std::string> launchers{};  ///< by rank, another one with each start by hand; "": not known
  int restarts = 0;
};
JobIdentity identify(const JobMarks& marks);

/// Whether the line is of a job of that name: they have a part in common. What one of them does not say counts as no.
[[nodiscard]] bool is_of_job(const Timeline& line, const std::string& name);

/// Of a job of which the names are parts: nodes come and go.
[[nodiscard]] std::string name_of_both(const std::string& one, const std::string& other);

/// A new line.
Timeline begin_timeline(const JobIdentity& job, std::string began_from = {}, std::string began_path = {});

/// What the checkpoints after this one say.
Timeline continued(const PtDict& checkpoint);

/// Of a checkpoint: its line and step. Empty: it does not say.
std::string name_of(const PtDict& checkpoint);

/// What `checkpoint`, one of ddprun's, says; of an earlier ddprun's, nothing.
Timeline timeline_of(const PtDict& checkpoint);
PtDict to_dict(const Timeline& line);

}  // namespace ddprun::training
