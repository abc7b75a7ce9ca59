#include "worker/training/ranks/generators_part.h"

#include "worker/training/ranks/rank_bytes.h"
#include <ddprun/exception.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::training {

GeneratorsPart::GeneratorsPart(const Context& context, const RankBlock& block, Generators& generators,
                               std::function<std::uint64_t(int rank)> fresh_seed)
    : SavedPart("rng"),
      context_(context),
      block_(block),
      generators_(generators),
      fresh_seed_(std::move(fresh_seed)) {}

PtValue GeneratorsPart::save() { return bytes_of_ranks(context_, block_, generators_.states()); }

PtValue GeneratorsPart::save_own() { return list_of_block(generators_.states()); }

void GeneratorsPart::load_halves(const PtValue& /*common*/, const PtValue& own) {
  if (!generators_.set_states(bytes_of_own(own, block_.count, key())))
    throw Exception(ErrorCode::kCorrupt, "its generators are of another kind of device");
}

void GeneratorsPart::load(const PtValue& value) {
  const std::optional<std::vector<std::string>> states = bytes_of_block(value, block_, key());
  if (states && generators_.set_states(*states)) return;
  generators_.seed([this](std::size_t turn) { return fresh_seed_(block_.rank(turn)); });
}

}  // namespace ddprun::training
