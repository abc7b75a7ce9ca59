#pragma once

#include "worker/runtime/checkpoint/kept_file.h"
#include "worker/training/checkpoint_search.h"
#include "worker/training/saved_part.h"
#include <ddprun/init.h>
#include <ddprun/pt_value.h>

#include <cstdint>
#include <optional>
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

/// The last step that every rank has, of one origin; nullopt: there is none. Pure.
[[nodiscard]] std::optional<MemoryMark> newest_of_all(const std::vector<std::vector<MemoryMark>>& by_rank);

/// The states of this rank after its last steps, in memory that the launcher keeps when the rank's process ends: what
/// the ranks that it starts again go on from. Of what all ranks have in common each one keeps a share, and all that
/// is its own.
///
/// It outlives the workers, not the launcher and not the host: checkpoints on the disk are for these. Of another world
/// than the one that left it, or another job file, nothing is taken.
///
/// A rank that is killed may leave one state half written, when others have that one already: of two, at least one is
/// whole on all ranks.
class MemoryCheckpoints {
 public:
  /// names    what DDPRUN_KEPT_MEMORY says
  /// job      the merged job file, as text
  /// context  outlives this
  /// Errors   Exception kOs, kNotFound: a file of it cannot be opened; kConfig: it does not name as many as there are
  MemoryCheckpoints(const Context& context, std::string_view names, const std::string& job);

  /// In place of the older one, from confirm() on. Not collective.
  /// Errors  Exception kOs: there is no memory. Said once: from then on nothing is kept.
  void save(std::int64_t step, const Timeline& line, const RankState& state);
  void confirm();

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
  /// By place in files_; nullopt: there is no whole state, or it is of another rank or job file.
  [[nodiscard]] std::vector<std::optional<MemoryMark>> read_marks() const;
  /// Whether there is one of another world or job file.
  [[nodiscard]] bool has_another() const;
  /// Of all ranks, from files_[place] of each; errors as KeptFile's, the same on every rank. Collective.
  [[nodiscard]] MemoryPoint share(std::size_t place) const;

  const Context& context_;
  std::string seat_;  ///< whose states this takes, as their labels begin
  std::vector<runtime::KeptFile> files_;
  std::size_t next_ = 0;  ///< of files_, the one that is written next
  bool is_broken_ = false;
};

}  // namespace ddprun::training
