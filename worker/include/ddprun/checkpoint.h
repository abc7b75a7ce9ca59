#pragma once

#include <ddprun/averaged_model.h>
#include <ddprun/exception.h>
#include <ddprun/grad_scaler.h>
#include <ddprun/lr_scheduler.h>
#include <ddprun/optim.h>
#include <ddprun/pt_value.h>

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Parameters and buffers of `module` under the names and in the order of Python's `state_dict()`. Tensors
/// are shared.
PtDict state_dict(const torch::nn::Module& module);

/// Copies `state` into the parameters and buffers of `module`, all or nothing.
/// Errors  Exception kConfig listing every name that is missing, not known, or has another shape or type.
void load_state_dict(torch::nn::Module& module, const PtDict& state);

/// `optimizer` as Python's `optimizer.state_dict()`: "state" by parameter index, and "param_groups".
PtDict state_dict(const FusedOptimizer& optimizer);

/// Takes over what `state_dict` gave here or in Python, learning rate included, and the momentum where a
/// schedule moves it; the other hyperparameters stay.
/// Errors  Exception kConfig: another number of groups or parameters, unknown entries, other shapes; kCorrupt:
///         something is missing or of another kind. Nothing has changed then.
void load_state_dict(FusedOptimizer& optimizer, const PtDict& state);

/// What moves in `scheduler`, under the names of Python's `scheduler.state_dict()`, which takes it: what it
/// was constructed with is not in it.
PtDict state_dict(const LRScheduler& scheduler);
PtDict state_dict(const ReduceLROnPlateau& scheduler);

/// Takes over what `state_dict` gave here or in Python. The rates themselves are the optimizer's state: load
/// that as well.
/// Errors  Exception kConfig or kCorrupt: of another scheduler or optimizer; nothing has changed then.
void load_state_dict(LRScheduler& scheduler, const PtDict& state);
void load_state_dict(ReduceLROnPlateau& scheduler, const PtDict& state);

/// A GradScaler's state with the entries of Python's; empty of one that is not enabled.
PtDict state_dict(const GradScaler& scaler);
/// Errors  Exception kConfig for an empty one, unless this scaler is not enabled either; kCorrupt for what is
///         missing.
void load_state_dict(GradScaler& scaler, const PtDict& state);

/// As Python's AveragedModel has it: "n_averaged", then the module's entries with the prefix "module.".
PtDict state_dict(const AveragedModel& average);
/// Errors  as for a module.
void load_state_dict(AveragedModel& average, const PtDict& state);

/// A folder of checkpoints named step-<number>.pt, of which the newest `keep` stay.
///
/// One process writes (rank 0); any may read. What a crash left half-written is never mistaken for a
/// checkpoint.
class CheckpointDirectory {
 public:
  /// Creates the folder when the first checkpoint is written, not before. Errors: Exception kConfig for a `keep`
  /// below 1.
  CheckpointDirectory(std::string folder, int keep);

  struct Entry {
    std::int64_t step = 0;
    std::string path;
  };

  /// Writes step-<step>.pt (see save_pt), then removes the oldest beyond `keep`, and leftovers of crashed
  /// writers, as far as the disk lets it; what somebody is writing there stays. The first time it syncs the
  /// folders that lead there. Returns the path. Errors: Exception kOs.
  std::string save(std::int64_t step, const PtValue& value);

  /// The checkpoints that are there, newest first; none where there is no such folder. Files alone: a FIFO,
  /// folder or dangling link of such a name is none.
  /// Errors  Exception kOs: the folder, or what an entry is, cannot be read.
  [[nodiscard]] std::vector<Entry> list() const;

  struct Loaded {
    Entry entry;
    PtValue value;
  };
  /// The newest checkpoint that can be read. For each damaged one that is passed over, `skipped` is told why. What the
  /// writer removes between the listing and the reading is no trouble: the folder is listed again.
  /// Errors  as list(), and load_pt's but kCorrupt.
  [[nodiscard]] std::optional<Loaded> load_newest(
      const std::function<void(const Entry& entry, const std::string& why)>& skipped) const;

 private:
  void remove_older(std::int64_t step) const;

  std::string folder_;
  int keep_;
  bool is_way_synced_ = false;  ///< the folder's name, and those above it, by whoever made them
};

}  // namespace ddprun
