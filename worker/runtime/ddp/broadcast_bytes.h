#pragma once

#include <cstddef>

namespace ddprun::runtime {

/// How much one coalesced broadcast of parameters or buffers carries: Python's broadcast_bucket_size.
inline constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;

}  // namespace ddprun::runtime
