#include "worker/runtime/checkpoint/kept_tensors.h"

#include "rendezvous/base/check.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <utility>

namespace ddprun::runtime {
namespace {

/// Of less a copy costs less than a page.
constexpr std::size_t kLeastBytes = 4096;

using Owner = std::shared_ptr<KeptMapping>;

void let_go(void* owner) { delete static_cast<Owner*>(owner); }

std::size_t whole_pages(std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

}  // namespace

Result<KeptTensors> KeptTensors::open(const std::string& path) {
  Result<KeptMemory> memory = KeptMemory::open(path);
  if (!memory) return memory.error();
  return KeptTensors(std::move(*memory));
}

Result<void> KeptTensors::adopt(const std::vector<at::Tensor>& tensors) {
  std::set<c10::StorageImpl*> storages;
  std::size_t size = 0;
  for (const at::Tensor& tensor : tensors) {
    DDPRUN_CHECK(tensor.is_cpu(), "the launcher's memory is the host's");
    const c10::Storage& storage = tensor.storage();
    if (!would_adopt(tensor)) continue;
    if (storages.insert(storage.unsafeGetStorageImpl()).second) size += kept_size(storage.nbytes());
  }
  if (storages.empty()) return ok();
  Result<KeptMapping> mapping = memory_.map(end_, whole_pages(size));
  if (!mapping) return mapping.error();
  const Owner& part = parts_.emplace_back(std::make_shared<KeptMapping>(std::move(*mapping)));
  std::size_t at = 0;
  for (c10::StorageImpl* storage : storages) {
    void* const data = part->bytes().data() + at;
    std::memcpy(data, storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(at::DataPtr(data, new Owner(part), &let_go, at::kCPU));
    places_.emplace(data, end_ + at);
    at += kept_size(storage->nbytes());
  }
  end_ += part->bytes().size();
  return ok();
}

bool KeptTensors::would_adopt(const at::Tensor& tensor) const {
  const c10::Storage& storage = tensor.storage();
  return storage.nbytes() >= kLeastBytes && !place_of(storage.data());
}

void KeptTensors::release(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto found = places_.find(storage->data());
  if (found == places_.end()) return;
  places_.erase(found);
  at::DataPtr own = at::getCPUAllocator()->allocate(storage->nbytes());
  std::memcpy(own.get(), storage->data(), storage->nbytes());
  storage->set_data_ptr_noswap(std::move(own));
}

std::optional<std::uint64_t> KeptTensors::place_of(const void* data) const {
  const auto found = places_.find(data);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ddprun::runtime
