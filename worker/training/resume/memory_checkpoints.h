#pragma once

#include "worker/runtime/checkpoint/kept_file.h"
#include "worker/runtime/checkpoint/kept_tensors.h"
#include "worker/training/resume/checkpoint_search.h"
#include "worker/training/state/saved_part.h"
#include <ddprun/init.h>
#include <ddprun/pt_value.h>
#include <ddprun/trainer/options.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::training {

/// What a rank goes on from, of what the ranks left in memory.
struct MemoryPoint {
  std::int64_t step = 0;
  std::int64_t newest_on_disk = -1;  ///< the step of the job's newest checkpoint there; -1: it has none
  Timeline timeline;                 ///< of the checkpoints that follow
  RankState state;
};

/// A state that a rank has in memory.
struct MemoryMark {
  std::string origin;  ///< what left it: job file, line, start of the workers, and their number
  std::int64_t step = 0;

  bool operator==(const MemoryMark&) const = default;
};

/// Those of one rank.
struct MemoryMarks {
  std::vector<MemoryMark>
      own;  ///< of what is its own; where states are copied, with its share of the common half
  std::optional<MemoryMark> whole;  ///< of the common half, where that is kept in place
};

/// The last step of one origin of which every rank has its own, and one of them the common half, if `in_place`.
/// nullopt: there is none. Pure.
[[nodiscard]] std::optional<MemoryMark> newest_of_all(const std::vector<MemoryMarks>& by_rank, bool in_place);

/// Whether the ranks of a job can keep the state that they have in common in place: where it is on the CPU and the same
/// on several ranks, and no rank waits for another one between its update and the end of the step.
[[nodiscard]] bool can_keep_in_place(const Context& context, const Options& job);

/// The states of this rank after its last steps, in memory that the launcher keeps when the rank's process ends: what
/// the ranks that it starts again go on from.
///
/// Copied: after a step each rank keeps a share of what all have in common and all that is its own, in two files in
/// turn, so that a rank that is killed leaves one of both whole.
///
/// In place: what nothing but an update changes (parameters, the optimizer's state, the average) lives in that memory,
/// and nobody copies it. While a rank's update changes it, what it has in common with the others is theirs to keep:
/// before the backward, without which no other rank gets to its update, each keeps what is its own after the step;
/// those that outlive it end their update, and are ended only then. Lost is what all ranks were killed in the middle
/// of.
///
/// It outlives the workers, not the launcher and not the host: checkpoints on the disk are for these. Of another world
/// than the one that left it, or another job file, nothing is taken.
class MemoryCheckpoints {
 public:
  /// names     what DDPRUN_KEPT_MEMORY says
  /// job       the merged job file, as text
  /// in_place  can_keep_in_place()
  /// context   outlives this
  /// Errors    Exception kOs, kNotFound: a file of it cannot be opened; kConfig: it does not name as many as there are
  MemoryCheckpoints(const Context& context, std::string_view names, const std::string& job, bool in_place);

  [[nodiscard]] bool is_in_place() const { return in_place_; }

  // Copied. Not collective.

  /// In place of the older one, from confirm() on.
  /// Errors  Exception kOs: there is no memory. Said once: from then on nothing is kept.
  void save(std::int64_t step, const Timeline& line, const RankState& state);
  void confirm();

  // In place, one after the other in each step. Not collective. Errors as save().

  using Tensors = std::vector<at::Tensor>;

  /// Before the first step: what an update changes from now on, `updated`.
  void watch(const Tensors& updated);
  /// What something else has changed since the step before, or put in its place, a forward for instance, is copied from
  /// now on.
  void save_own(std::int64_t step, const Timeline& line, PtDict own);
  /// The common half changes from here on.
  void begin_update();
  /// It is whole again. What was not changed since it was `updated` the last time, but by this update, moves there. It
  /// is watched until the next call.
  void save_common(std::int64_t step, const Timeline& line, PtDict common, const Tensors& updated);
  /// Both, of the step that find_after() has found, on every rank: then it has the half that all have in common on
  /// each of them again. Collective.
  void save_found(const Timeline& line, const RankState& state);

  struct Found {
    std::optional<MemoryPoint> point;
    std::string
        passed_over;  ///< in words: why something that is there is of no use; empty: there is nothing such
  };
  /// What every rank has of the last step that all have, if it comes after `step`. Collective; the same on every rank.
  Found find_after(std::int64_t step);

  /// What is there is of no use any more. Not collective.
  void forget();

 private:
  [[nodiscard]] std::optional<MemoryMark> mark_in(const runtime::KeptFile& file) const;
  /// Whether there is one of another world or job file.
  [[nodiscard]] bool has_another() const;
  [[nodiscard]] std::string words_of_marks() const;
  /// Of all ranks, from own_[place] of each; errors as KeptFile's, the same on every rank. Collective.
  [[nodiscard]] MemoryPoint join_shares(std::size_t place) const;
  /// The common half of `from_rank`, and what is own of own_[place]. As join_shares.
  [[nodiscard]] MemoryPoint take_whole(std::size_t place, int from_rank) const;
  void check(const Result<void>& done);
  void confirm_own();
  /// Of `updated`, what is to move.
  [[nodiscard]] Tensors to_adopt(const Tensors& updated) const;
  [[nodiscard]] std::string label_of(std::int64_t step, const Timeline& line) const;

  /// What the last update has changed.
  struct Watched {
    at::Tensor tensor;
    std::int64_t version = 0;                   ///< how often it had been changed then
    const c10::StorageImpl* storage = nullptr;  ///< that it had then
  };

  struct Files {
    std::array<runtime::KeptFile, 2> own;
    runtime::KeptFile common;
    runtime::KeptTensors tensors;
  };
  static Files open(std::string_view names);

  const Context& context_;
  bool in_place_;
  std::string seat_;  ///< whose states this takes, as their labels begin
  Files files_;
  std::size_t next_ = 0;  ///< of files_.own, the one that is written next
  bool is_broken_ = false;
  std::optional<std::int64_t> found_step_;
  int found_on_ = 0;  ///< the rank whose common half all took
  std::vector<Watched> watched_;
  std::set<const c10::StorageImpl*> restless_;  ///< those of tensors that not only updates change
};

}  // namespace ddprun::training
