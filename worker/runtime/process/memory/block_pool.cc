#include "worker/runtime/process/memory/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ddprun::runtime {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kRegionBytes = std::size_t{32} << 20U;

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// `bytes` of address space that begins at a huge page, or nullptr.
std::byte* map_region(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  void* const raw =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(raw);
  const std::size_t front =
      round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (front > 0) ::munmap(begin, front);
  ::munmap(begin + front + bytes, mapped - front - bytes);
  ::madvise(begin + front, bytes, MADV_HUGEPAGE);  // not needed to be right
  return begin + front;
}

}  // namespace

BlockPool::~BlockPool() {
  for (const Region& region : regions_) ::munmap(region.begin, region.bytes);
}

std::size_t BlockPool::block_size(std::size_t bytes) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(std::max(bytes, kSmallest) - 1) / 4);
  return round_up(std::max(bytes, kSmallest), step);
}

std::byte* BlockPool::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[size];
  shelf.last_use = ++uses_;
  std::byte* block = nullptr;
  if (shelf.blocks.empty()) {
    block = carve(size);
    if (block == nullptr) return nullptr;
  } else {
    block = shelf.blocks.back();
    shelf.blocks.pop_back();
    if (shelf.cold > shelf.blocks.size()) {
      --shelf.cold;
    } else {
      usage_.idle -= size;
    }
  }
  usage_.used += size;
  usage_.peak = std::max(usage_.peak, usage_.used);
  return block;
}

std::byte* BlockPool::carve(std::size_t size) {
  if (size > static_cast<std::size_t>(end_ - next_)) {
    const std::size_t bytes = round_up(std::max(size, kRegionBytes), kHugePage);
    std::byte* const begin = map_region(bytes);
    if (begin == nullptr) return nullptr;
    regions_.push_back({.begin = begin, .bytes = bytes});
    next_ = begin;
    end_ = begin + bytes;
  }
  std::byte* const block = next_;
  next_ += size;
  size_of_block_.emplace(block, size);
  return block;
}

bool BlockPool::free(std::byte* block) {
  const std::lock_guard lock(mutex_);
  const auto found = size_of_block_.find(block);
  if (found == size_of_block_.end()) return false;
  const std::size_t size = found->second;
  usage_.used -= size;
  usage_.idle += size;
  Shelf& shelf = shelves_[size];
  shelf.last_use = ++uses_;
  shelf.blocks.push_back(block);
  while (usage_.idle > usage_.peak) release_oldest();
  return true;
}

void BlockPool::release_oldest() {
  std::pair<const std::size_t, Shelf>* oldest = nullptr;
  for (auto& shelf : shelves_) {
    const bool has_memory = shelf.second.cold < shelf.second.blocks.size();
    if (has_memory && (oldest == nullptr || shelf.second.last_use < oldest->second.last_use)) oldest = &shelf;
  }
  auto& [size, shelf] = *oldest;
  // The address stays with the pool; memory comes back, zeroed, when it is touched again.
  ::madvise(shelf.blocks[shelf.cold++], size, MADV_DONTNEED);
  usage_.idle -= size;
}

BlockPool::Usage BlockPool::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

}  // namespace ddprun::runtime
