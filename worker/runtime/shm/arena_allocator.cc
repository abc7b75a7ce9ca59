#include "worker/runtime/shm/arena_allocator.h"

#include <cstdint>

namespace ddprun::runtime::shm {
namespace {

/// libtorch replaces an allocator only by one of at least its priority.
constexpr std::uint8_t kHighestPriority = 255;

thread_local std::shared_ptr<Arena> arena_of_thread;

struct Piece {
  std::shared_ptr<Arena> arena;
  std::byte* data;
};

void free_piece(void* context) {
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(context));
  piece->arena->free(piece->data);
}

}  // namespace

c10::DataPtr allocate_in(const std::shared_ptr<Arena>& arena, std::size_t bytes) {
  std::byte* const data = arena->allocate(bytes);
  if (data == nullptr) return {};
  return {data, new Piece{arena, data}, &free_piece, c10::Device(c10::kCPU)};
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

}  // namespace ddprun::runtime::shm
