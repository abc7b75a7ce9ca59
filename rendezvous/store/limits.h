#pragma once

#include <cstdint>

namespace ddprun::store {

/// What one request may be, and may ask for, at most. The first three are PyTorch's; the last two bound what
/// those allow together (128 Ki values of 8 MiB).
struct Limits {
  std::uint64_t max_keys = 128 * 1024;
  std::uint64_t max_key_bytes = 8 * 1024;
  std::uint64_t max_value_bytes = 8 * 1024 * 1024;
  std::uint64_t max_request_bytes = 256 * 1024 * 1024;
  std::uint64_t max_reply_bytes = 256 * 1024 * 1024;
};

}  // namespace ddprun::store
