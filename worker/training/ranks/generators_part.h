#pragma once

#include "worker/training/ranks/rank_block.h"
#include "worker/training/state/generators.h"
#include "worker/training/state/saved_part.h"

#include <cstdint>
#include <functional>

namespace ddprun::training {

/// The states of the random generators of all ranks ("rng"). In a job of more or fewer ranks, or on another kind of
/// device, they start anew, from seeds that the job's step is part of.
class GeneratorsPart final : public SavedPart {
 public:
  /// `fresh_seed` is asked when the states of the checkpoint do not fit. `context` and `generators`, which are those of
  /// `block`, outlive this.
  GeneratorsPart(const Context& context, const RankBlock& block, Generators& generators,
                 std::function<std::uint64_t(int rank)> fresh_seed);
  PtValue save() override;
  void load(const PtValue& value) override;
  PtValue save_common() override { return {}; }
  PtValue save_own() override;
  void load_halves(const PtValue& common, const PtValue& own) override;

 private:
  const Context& context_;
  RankBlock block_;
  Generators& generators_;
  std::function<std::uint64_t(int rank)> fresh_seed_;
};

}  // namespace ddprun::training
