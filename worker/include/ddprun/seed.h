#pragma once

#include <ddprun/group.h>

#include <cstdint>

namespace ddprun {

/// Seeds libtorch's generators of all devices: torch.manual_seed. With the same seed on every rank the models
/// start equal (DDP would make them so anyway). Not collective.
void seed_all_devices(std::uint64_t seed);

/// The same with `seed` plus this rank: for what should differ between ranks, such as dropout and
/// augmentation. Not collective.
/// Errors  kConfig: this rank is not in `group`.
void seed_each_rank(const Group& group, std::uint64_t seed);

}  // namespace ddprun
