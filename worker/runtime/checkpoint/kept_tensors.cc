#include "worker/runtime/checkpoint/kept_tensors.h"

#include "rendezvous/base/check.h"

#include <ATen/ATen.h>

#include <cstring>
#include <set>
#include <utility>

namespace ddprun::runtime {
namespace {

/// Of less a copy costs less than a page.
constexpr std::size_t kLeastBytes = 4096;
using Owner = std::shared_ptr<KeptMemory>;

void let_go(void* owner) { delete static_cast<Owner*>(owner); }

}  // namespace

Result<KeptTensors> KeptTensors::open(const std::string& path) {
  Result<KeptMemory> memory = KeptMemory::open(path);
  if (!memory) return memory.error();
  return KeptTensors(std::move(*memory));
}

Result<void> KeptTensors::adopt(const std::vector<at::Tensor>& tensors) {
  DDPRUN_CHECK(places_.empty(), "memory that others use does not move");
  std::set<c10::StorageImpl*> storages;
  std::size_t size = 0;
  for (const at::Tensor& tensor : tensors) {
    DDPRUN_CHECK(tensor.is_cpu(), "the launcher's memory is the host's");
    const c10::Storage& storage = tensor.storage();
    if (storage.nbytes() < kLeastBytes || !storages.insert(storage.unsafeGetStorageImpl()).second) continue;
    size += kept_size(storage.nbytes());
  }
  if (Result<void> done = memory_->reserve(size); !done) return done;
  std::uint64_t place = 0;
  for (c10::StorageImpl* storage : storages) {
    void* const data = memory_->bytes().data() + place;
    std::memcpy(data, storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(at::DataPtr(data, new Owner(memory_), &let_go, at::kCPU));
    places_.emplace(data, place);
    place += kept_size(storage->nbytes());
  }
  return ok();
}

std::optional<std::uint64_t> KeptTensors::place_of(const void* data) const {
  const auto found = places_.find(data);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ddprun::runtime
