#pragma once

#include "worker/training/saved_part.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace ddprun::training {

/// The states of the random generators of all ranks ("rng"). In a world of another size, or on another kind of
/// device, they start anew, from a seed that the job's step is part of.
class GeneratorsPart final : public SavedPart {
 public:
  /// `fresh_seed` is asked when the states of the checkpoint do not fit. `context` outlives this.
  GeneratorsPart(const Context& context, std::function<std::uint64_t()> fresh_seed);
  PtValue save() override;
  void load(const PtValue& value) override;

 private:
  const Context& context_;
  std::function<std::uint64_t()> fresh_seed_;
};

}  // namespace ddprun::training
