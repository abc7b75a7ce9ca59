#pragma once

#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/saved_part.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::training {

/// Something that each rank has for itself, as bytes, wherever the ranks live: an entry with a row of bytes for each.
/// In a job of more or fewer ranks, or where the bytes do not fit, it begins anew.
class RankPart final : public SavedPart {
 public:
  /// Of the ranks that this process trains as, by turn.
  struct Bytes {
    std::function<std::vector<std::string>()> get;
    /// Those of the turns from `first` on. False, and nothing is changed: they are of something else.
    std::function<bool(const std::vector<std::string>& bytes, std::size_t first)> take;
    std::function<void()> begin_anew;
    std::string misfit;  ///< says of what else they are, for a refusal
    std::size_t first_own =
        0;  ///< the turn from which on they are in the own half; who saves that knows the others
  };

  /// `context` outlives it.
  RankPart(std::string key, const Context& context, const RankBlock& block, Bytes bytes);

  PtValue save() override;
  void load(const PtValue& value) override;
  PtValue save_common() override { return {}; }
  PtValue save_own() override;
  void load_halves(const PtValue& common, const PtValue& own) override;

 private:
  const Context& context_;
  RankBlock block_;
  Bytes bytes_;
};

}  // namespace ddprun::training
