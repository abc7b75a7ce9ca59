#pragma once

#include "worker/training/timeline.h"
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

/// Errors  Exception kCorrupt or kConfig when `checkpoint` is not one of ddprun's.
AboutJob read_about(const PtDict& checkpoint);

/// Every part takes over its entry. Returns the keys of those that the checkpoint lacks.
/// Errors  Exception kConfig: an essential part is missing, or one does not fit.
std::vector<std::string> load_parts(const PtDict& checkpoint, const SavedParts& parts);

}  // namespace ddprun::training
