#pragma once

#include <ddprun/checkpoint.h>
#include <ddprun/exception.h>
#include <ddprun/group.h>
#include <ddprun/pt_value.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A checkpoint that is on the disk: its bytes, its name and its folder are synced.
struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string path;
  bool is_best = false;  ///< one that its value chose, beside the newest
  double seconds = 0;    ///< from save() to the disk
};

struct CheckpointerOptions {
  std::string folder;  ///< made with the first checkpoint
  int keep = 3;        ///< the newest so many stay; at least 1
  /// How many more stay because their values are the best, as best-<step>-<best_by>-<value>.pt.
  std::int64_t keep_best = 0;
  std::string best_by = "loss";  ///< what the value is
  bool higher_is_better = false;
  /// Told of each checkpoint that is on the disk, on rank 0, from within save(), poll(), drain(), flush() and newest().
  std::function<void(const SavedCheckpoint&)> on_saved{};
  /// Told, like that, of each one that could not be written. Empty: the call throws what it would be told.
  std::function<void(std::int64_t step, const Exception& why)> on_failed{};
};

/// What a checkpoint is saved as.
struct SaveAs {
  bool newest = true;  ///< step-<step>.pt
  /// Its value, where it is to be one of the best: written, when its turn comes, if it is among them, and told of
  /// then. NaN and infinities never are.
  std::optional<double> best{};
  /// Nothing comes after it, and there is no time: earlier ones that wait for the disk, and are none of the best, are
  /// not written any more.
  bool is_last = false;
};

/// Checkpoints of a training: written by rank 0 on a thread of its own while the training goes on, read by
/// rank 0 alone for all.
///
///     ddprun::Checkpointer checkpoints(context, {.folder = "runs/mine/checkpoints"});
///     std::int64_t step = 0;
///     if (const auto last = checkpoints.newest()) {  // where an earlier start came to
///       ddprun::load_state_dict(*model, last->value.as_dict().at("model").as_dict());
///       ddprun::load_state_dict(optimizer, last->value.as_dict().at("optimizer").as_dict());
///       step = last->entry.step;
///     }
///     while (step < 1000) {
///       train_one_step();
///       ddprun::PtDict state;
///       state.set("model", ddprun::state_dict(*model));
///       state.set("optimizer", ddprun::state_dict(optimizer));
///       checkpoints.save(++step, state);
///     }
///     checkpoints.flush();
///
/// The bits of a run that was never interrupted need more of it: bucket_order() of DistributedDataParallel, from three
/// ranks on, and the state of generators that are not seeded by the step.
///
/// A file is whole or not there (save_pt), and torch.load opens it. One that is damaged later is passed over
/// for the one before.
/// Memory   two copies of the state on rank 0's host, made by the first two calls of save() and used from
///          then on.
/// Threads  one of its own on rank 0, from the first save() on. Members are called from one thread.
/// Ends     where the process ends and nothing is destroyed, after std::terminate under record() or because ddprun's
///          Drain has no peer left, it waits for the disk for 20 s at most.
class Checkpointer {
 public:
  /// Not collective.
  /// Errors  Exception kConfig: `keep` below 1, `keep_best` below 0, or above it without a `best_by`.
  Checkpointer(Group group, CheckpointerOptions options);
  /// What save() was given is written, as far as the disk takes it; what could not be, and nobody was told of, is
  /// said on stderr. Blocks for as long as that takes.
  ~Checkpointer();
  Checkpointer(Checkpointer&&) noexcept;
  Checkpointer& operator=(Checkpointer&&) = delete;

  /// Takes a copy of `value` and has it written. On ranks but 0 it does nothing. Not collective.
  ///
  /// Blocks  for the copy; and while two earlier ones are not on the disk, until one is.
  /// Errors  Exception kOs, with the disk's words: an earlier one could not be written, unless on_failed is
  ///         given; this one is on its way all the same. So where the thread cannot be started; then this one is lost.
  void save(std::int64_t step, const PtValue& value, const SaveAs& as = {});

  /// Tells of what has been written since; what save() does first. Blocks for nothing. Not collective.
  /// Errors  as save().
  void poll();

  /// Waits on rank 0 until save() will not wait for an earlier one. For a program whose ranks are to know
  /// that rank 0 waits: between this and save() comes a collective. Not collective.
  void wait_for_room();

  /// Waits until all are on the disk, and tells of them. Collective: no rank returns before.
  /// Errors  as save(), on every rank: rank 0's, of the others that of a lost peer with its words.
  void flush();
  /// The same on this rank alone. Not collective.
  void drain();

  /// The newest checkpoint that can be read, on every rank: read once, by rank 0, and sent in pieces of 16
  /// MiB. For each damaged one that is passed over, `skipped` is told why, on rank 0. Waits for what save()
  /// was given before. Collective.
  /// Errors  Exception, on every rank: kCorrupt where there are checkpoints and none is whole; kOs, the folder or a
  ///         file cannot be read; and as save().
  [[nodiscard]] std::optional<CheckpointDirectory::Loaded> newest(
      const std::function<void(const CheckpointDirectory::Entry& entry, const std::string& why)>& skipped =
          {});

  /// Whether a checkpoint of that value would be among the best. Rank 0 knows; after drain(). Errors, here and below:
  /// Exception kOs, the folder cannot be read.
  [[nodiscard]] bool is_among_best(std::int64_t step, double value) const;
  /// Those of the best that are there, best first. After drain().
  [[nodiscard]] std::vector<std::string> best() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddprun
