#include "worker/runtime/comm/shm/arena_allocator.h"

#include <cstdint>
#include <unordered_map>
#include <utility>

namespace ddprun::runtime::shm {
namespace {

/// libtorch replaces an allocator only by one of at least its priority.
constexpr std::uint8_t kHighestPriority = 255;

thread_local std::shared_ptr<Arena> arena_of_thread;

// Which arena a piece came from. libtorch's raw_allocate() wants memory that is its own context, so the owner
// is looked up and not carried along.
class Pieces {
 public:
  static Pieces& instance() {
    static auto* const pieces = new Pieces;  // never destroyed: storages outlive everything
    return *pieces;
  }
  void add(void* data, std::shared_ptr<Arena> arena) {
    const std::lock_guard lock(mutex_);
    arenas_.emplace(data, std::move(arena));
  }
  /// Gives a piece back to its arena; false for memory that is no piece.
  bool free(void* data) {
    std::shared_ptr<Arena> arena;
    {
      const std::lock_guard lock(mutex_);
      const auto found = arenas_.find(data);
      if (found == arenas_.end()) return false;
      arena = std::move(found->second);
      arenas_.erase(found);
    }
    arena->free(static_cast<std::byte*>(data));
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<Arena>> arenas_;
};

void free_piece(void* data) { Pieces::instance().free(data); }

}  // namespace

c10::DataPtr allocate_in(const std::shared_ptr<Arena>& arena, std::size_t bytes) {
  std::byte* const data = arena->allocate(bytes);
  if (data == nullptr) return {};
  Pieces::instance().add(data, arena);
  return {data, data, &free_piece, c10::Device(c10::kCPU)};
}

ArenaAllocator& ArenaAllocator::instance() {
  static auto* const allocator = new ArenaAllocator;  // never destroyed: storages outlive everything
  return *allocator;
}

void ArenaAllocator::use_on_this_thread(std::shared_ptr<Arena> arena) {
  const std::lock_guard lock(mutex_);
  const int before = users_;
  users_ += (arena ? 1 : 0) - (arena_of_thread ? 1 : 0);
  arena_of_thread = std::move(arena);
  if (before == 0 && users_ > 0) {
    usual_ = c10::GetAllocator(c10::kCPU);
    c10::SetAllocator(c10::kCPU, this, kHighestPriority);
  }
  if (before > 0 && users_ == 0) c10::SetAllocator(c10::kCPU, usual_, kHighestPriority);
}

c10::DataPtr ArenaAllocator::allocate(std::size_t bytes) {
  if (bytes > 0 && arena_of_thread) {
    if (c10::DataPtr piece = allocate_in(arena_of_thread, bytes)) return piece;
  }
  return usual_->allocate(bytes);
}

c10::DeleterFnPtr ArenaAllocator::raw_deleter() const { return &free_any; }

void ArenaAllocator::free_any(void* memory) {
  if (!Pieces::instance().free(memory)) instance().usual_->raw_deleter()(memory);
}

}  // namespace ddprun::runtime::shm
