#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ddprun::runtime {

/// Keeps the large pieces of memory that a training step frees for the next step, which asks for the same
/// sizes.
///
/// malloc returns such memory to the kernel and gets it back one zeroed page at a time, in every step. The
/// pool keeps it, in huge pages where the kernel offers them, and hands the piece that was freed last out
/// first, because that one may still be in the cache. Sizes are rounded up to one of four per power of two,
/// so at most a fifth of a piece is unused. When more is idle than was ever in use at once, the sizes that
/// were asked for longest ago go back to the kernel. Threads: any.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  /// Everything must have been freed, or never be used again.
  ~BlockPool();

  /// At least `bytes` (≥ kSmallest) bytes, aligned to kAlignment; nullptr when the kernel has none.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Takes back what allocate() returned; false, and nothing done, for other memory.
  bool free(std::byte* block);

  struct Usage {
    std::size_t used;  ///< bytes handed out
    std::size_t idle;  ///< bytes kept for the next that asks
    std::size_t peak;  ///< most ever handed out at once
  };
  [[nodiscard]] Usage usage() const;

  static constexpr std::size_t kSmallest = std::size_t{64} << 10U;
  static constexpr std::size_t kAlignment = 4096;
  /// The size of the block that holds `bytes`.
  static std::size_t block_size(std::size_t bytes);

 private:
  struct Region {
    std::byte* begin;
    std::size_t bytes;
  };

  /// The idle blocks of one size, the last freed at the back.
  struct Shelf {
    std::vector<std::byte*> blocks;
    std::size_t cold = 0;  ///< so many at the front are addresses only, without memory
    std::uint64_t last_use = 0;
  };

  [[nodiscard]] std::byte* carve(std::size_t size);
  void release_oldest();

  mutable std::mutex mutex_;
  std::map<std::size_t, Shelf> shelves_;                       ///< by block size
  std::unordered_map<std::byte*, std::size_t> size_of_block_;  ///< of every block, used or idle
  std::vector<Region> regions_;
  std::byte* next_ = nullptr;  ///< the unused rest of the newest region
  std::byte* end_ = nullptr;
  Usage usage_{};
  std::uint64_t uses_ = 0;
};

}  // namespace ddprun::runtime
