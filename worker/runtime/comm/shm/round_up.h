#pragma once

#include <cstddef>

namespace ddprun::runtime::shm {

/// The next multiple of `to`.
constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace ddprun::runtime::shm
