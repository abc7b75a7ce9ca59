#include <ddprun/exception.h>
#include <ddprun/seed.h>

#include <torch/types.h>
#include <torch/utils.h>

namespace ddprun {

void seed_all_devices(std::uint64_t seed) { torch::manual_seed(seed); }

void seed_each_rank(const Group& group, std::uint64_t seed) {
  seed_all_devices(seed + static_cast<std::uint64_t>(group.process_group()->getRank()));
}

}  // namespace ddprun
