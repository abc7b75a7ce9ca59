#pragma once

#include "worker/training/state/timeline.h"
#include <ddprun/init.h>
#include <ddprun/pt_value.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {

/// Something of a job that goes on after a resume as if nothing had been: an entry of each checkpoint, which it
/// writes and reads itself.
class SavedPart {
 public:
  explicit SavedPart(std::string key) : key_(std::move(key)) {}
  virtual ~SavedPart() = default;
  SavedPart(const SavedPart&) = delete;
  SavedPart& operator=(const SavedPart&) = delete;

  [[nodiscard]] const std::string& key() const { return key_; }
  /// Of a checkpoint that lacks this part: true refuses it, false lets the part begin anew.
  [[nodiscard]] virtual bool is_essential() const { return false; }

  /// What the checkpoint has under the key. Collective; what rank 0 gives is written.
  [[nodiscard]] virtual PtValue save() = 0;
  /// Takes over what `save` gave, in this world or another. Not collective.
  /// Errors  Exception kConfig or kCorrupt: it does not fit, or is damaged.
  virtual void load(const PtValue& value) = 0;

  /// The same in two halves, for ranks that keep their states themselves (MemoryCheckpoints): what is the same on every
  /// rank, and what is this rank's alone. None: nothing. The former is collective.
  [[nodiscard]] virtual PtValue save_common() { return save(); }
  [[nodiscard]] virtual PtValue save_own() { return {}; }
  /// Takes over what both gave, in a world of the same size. Errors: as load.
  virtual void load_halves(const PtValue& common, const PtValue& /*own*/) { load(common); }

 private:
  std::string key_;
};

using SavedParts = std::vector<std::unique_ptr<SavedPart>>;

/// What a checkpoint says of the job that wrote it.
struct AboutJob {
  std::string model;      ///< type
  std::string optimizer;  ///< type
  std::string config;     ///< the merged job file, as JSON text
  Timeline timeline{};
};

/// A checkpoint's content: a dict with an entry for each part and "ddprun", which says what wrote it.
/// Collective.
PtDict make_checkpoint(const AboutJob& about, const SavedParts& parts);

/// The same in two halves, each with an entry for each part; `common` has "ddprun", too.
struct RankState {
  PtDict common;
  PtDict own;
};
/// Collective.
PtDict make_common_state(const AboutJob& about, const SavedParts& parts);
/// Not collective.
PtDict make_own_state(const SavedParts& parts);
/// Every part takes over its entries.
/// Errors  as load_parts.
void load_rank_state(const RankState& state, const SavedParts& parts);

/// Errors  Exception kCorrupt or kConfig when `checkpoint` is not one of ddprun's.
AboutJob read_about(const PtDict& checkpoint);

/// Every part takes over its entry. Returns the keys of those that the checkpoint lacks.
/// Errors  Exception kConfig: an essential part is missing, or one does not fit.
std::vector<std::string> load_parts(const PtDict& checkpoint, const SavedParts& parts);

}  // namespace ddprun::training
