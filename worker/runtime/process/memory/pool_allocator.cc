#include "worker/runtime/process/memory/pool_allocator.h"

#include "worker/runtime/process/memory/block_pool.h"

#include <c10/core/Allocator.h>

namespace ddprun::runtime {
namespace {

/// libtorch replaces an allocator only by one of at least its priority.
constexpr std::uint8_t kHighestPriority = 255;

class PoolAllocator final : public c10::Allocator {
 public:
  static PoolAllocator& instance() {
    static auto* const allocator = new PoolAllocator;  // never destroyed: storages outlive everything
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    std::byte* const block = bytes < BlockPool::kSmallest ? nullptr : pool_.allocate(bytes);
    if (block == nullptr) return usual_->allocate(bytes);
    return {block, block, &free_memory, c10::Device(c10::kCPU)};
  }

  /// For raw_deallocate(), by which oneDNN's kernels give back what they took.
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  PoolAllocator() : usual_(c10::GetAllocator(c10::kCPU)) {}

  static void free_memory(void* memory) {
    PoolAllocator& self = instance();
    if (!self.pool_.free(static_cast<std::byte*>(memory))) self.usual_->raw_deleter()(memory);
  }

  c10::Allocator* usual_;
  BlockPool pool_;
};

}  // namespace

void use_pool_for_cpu_tensors() {
  static const bool is_installed = [] {
    c10::SetAllocator(c10::kCPU, &PoolAllocator::instance(), kHighestPriority);
    return true;
  }();
  static_cast<void>(is_installed);
}

}  // namespace ddprun::runtime
