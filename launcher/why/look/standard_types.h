#pragma once

#include "launcher/why/look/process_memory.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun::launcher::why {

// Types of libstdc++ in the memory of another process, which may hold anything: each reader stops at a limit.

/// The bytes of an object that were read.
using Bytes = std::span<const unsigned char>;

template <class T>
T value_at(Bytes object, std::size_t offset) {
  T value{};
  if (offset + sizeof value <= object.size()) std::memcpy(&value, object.data() + offset, sizeof value);
  return value;
}

/// The std::string that begins at `offset`; nullopt: it cannot be one, or is longer than 200 bytes.
std::optional<std::string> read_string(const ReadMemory& memory, Bytes object, std::size_t offset);

/// The elements of a std::map, each as the first `size` bytes of its node, in any order; an element begins at
/// kMapElement. Nullopt: it cannot be a map, has more than 1024 elements, or is being changed.
std::optional<std::vector<std::vector<unsigned char>>> read_map(const ReadMemory& memory, std::uint64_t map,
                                                                std::size_t size);
inline constexpr std::size_t kMapElement = 32;

}  // namespace ddprun::launcher::why
