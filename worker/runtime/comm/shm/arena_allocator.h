#pragma once

#include "worker/runtime/comm/shm/arena.h"

#include <c10/core/Allocator.h>

#include <memory>
#include <mutex>

namespace ddprun::runtime::shm {

/// A piece of `arena` as tensor memory, which keeps the arena and its segment alive; null when there is no
/// room.
c10::DataPtr allocate_in(const std::shared_ptr<Arena>& arena, std::size_t bytes);

/// libtorch's allocator of CPU tensors while some thread allocates from an arena. Serves such threads from
/// their arena, everybody else and what does not fit from the allocator that was there before.
///
/// There is one for the life of the process, because every storage keeps a pointer to the allocator it came
/// from.
class ArenaAllocator final : public c10::Allocator {
 public:
  static ArenaAllocator& instance();

  /// From now on the calling thread's tensors come from `arena`; null: no longer.
  void use_on_this_thread(std::shared_ptr<Arena> arena);

  c10::DataPtr allocate(std::size_t bytes) override;
  /// For raw_deallocate(), by which oneDNN's kernels give back what they took: on any thread, from either.
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  ArenaAllocator() = default;

  static void free_any(void* memory);

  c10::Allocator* usual_ = nullptr;  ///< the one that was there when this was installed
  std::mutex mutex_;
  int users_ = 0;  ///< threads with an arena; installed in libtorch while there are any
};

}  // namespace ddprun::runtime::shm
