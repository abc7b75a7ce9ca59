#include <ddprun/everywhere.h>

#include <torch/torch.h>

namespace ddprun {

void seed_everything(std::uint64_t seed) { torch::manual_seed(seed); }

}  // namespace ddprun
