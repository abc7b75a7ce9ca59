#pragma once

#include "launcher/why/look/process_memory.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddprun::launcher::why {

// Offsets in c10d's FlightRecorder and its Entry, the same in torch 2.11 and 2.15.
inline constexpr std::size_t kRecorderBegin = 48, kRecorderEnd = 56, kRecorderNext = 80, kRecorderId = 88,
                             kRecorderHead = 96;
inline constexpr std::uint64_t kRecorderRanks = 208;  // a std::map of groups: name and description to ranks
inline constexpr std::size_t kEntry = 512;
inline constexpr std::size_t kEntryId = 0, kEntryGroup = 56, kEntrySequence = 88, kEntryOperation = 112,
                             kEntryEnd = 168, kEntryCreated = 176, kEntryIsPeer = 192, kEntryDimensions = 240,
                             kEntryInputTypes = 288, kEntrySizes = 384, kEntryRetired = 504;

/// Where the entries of a recorder lie, which are a ring.
struct RecorderHead {
  std::string_view problem;    ///< why it cannot be one, and nothing else is known; empty: it is one
  std::uint64_t recorder = 0;  ///< 0: nothing was recorded yet
  std::uint64_t begin = 0;
  std::uint64_t count = 0;  ///< of the entries that are there
  std::uint64_t next = 0;   ///< the place of the next one; in a full ring that of the oldest
  std::uint64_t id = 0;     ///< of the next one: how many there have been

  /// The address of the newest (1), the one before (2), and so on up to `count`.
  [[nodiscard]] std::uint64_t entry(std::uint64_t back) const {
    return begin + (next + count - back) % count * kEntry;
  }
};

/// The head of the recorder to which the pointer at `instance` leads.
RecorderHead read_recorder_head(const ReadMemory& memory, std::uint64_t instance);

}  // namespace ddprun::launcher::why
