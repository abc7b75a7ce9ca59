#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun {

/// An integer with a name, so that two of them cannot be swapped by accident. No arithmetic: take `value()`,
/// compute, and wrap the result again.
template <class Tag, class Int>
class StrongId {
 public:
  using value_type = Int;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Int value) : value_(value) {}

  [[nodiscard]] constexpr Int value() const { return value_; }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 behind <=> for a pointer
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Int value_{};
};

template <class Tag, class Int>
std::string to_string(StrongId<Tag, Int> id) {
  return std::to_string(id.value());
}

using Rank = StrongId<struct RankTag, int>;  ///< global index 0…world−1 in the current round
using LocalRank =
    StrongId<struct LocalRankTag, int>;              ///< index of the worker on its node; selects the device
using NodeRank = StrongId<struct NodeRankTag, int>;  ///< index of the node, 0…nnodes−1 (torchrun: group rank)
using WorldSize = StrongId<struct WorldSizeTag, int>;            ///< number of workers in total
using LocalWorldSize = StrongId<struct LocalWorldSizeTag, int>;  ///< number of workers on this node
using Generation =
    StrongId<struct GenerationTag, std::uint32_t>;  ///< number of the round; a restart makes a new one
using ConnectionId =
    StrongId<struct ConnectionIdTag, std::uint64_t>;   ///< which of those that this process has accepted
using Port = StrongId<struct PortTag, std::uint16_t>;  ///< TCP port; 0 lets the kernel choose

}  // namespace ddprun

template <class Tag, class Int>
struct std::hash<ddprun::StrongId<Tag, Int>> {
  std::size_t operator()(ddprun::StrongId<Tag, Int> id) const noexcept {
    return std::hash<Int>{}(id.value());
  }
};

template <class Tag, class Int>
struct fmt::formatter<ddprun::StrongId<Tag, Int>> : fmt::formatter<Int> {
  template <class Context>
  auto format(ddprun::StrongId<Tag, Int> id, Context& context) const {
    return fmt::formatter<Int>::format(id.value(), context);
  }
};
