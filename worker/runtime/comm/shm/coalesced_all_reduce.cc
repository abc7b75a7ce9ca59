#include "worker/runtime/comm/shm/coalesced_all_reduce.h"

#include <cstring>
#include <utility>

namespace ddprun::runtime::shm {

CoalescedAllReduce::CoalescedAllReduce(at::Tensor flat, std::vector<at::Tensor> tensors,
                                       const AllReduce::Arguments& whole)
    : flat_(std::move(flat)), tensors_(std::move(tensors)), whole_(whole) {}

Result<void> CoalescedAllReduce::complete(Group& group) {
  if (auto done = whole_.complete(group); !done) return done;
  const auto* from = static_cast<const std::byte*>(flat_.const_data_ptr());
  for (const at::Tensor& tensor : tensors_) {
    if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), from, tensor.nbytes());
    from += tensor.nbytes();
  }
  return ok();
}

}  // namespace ddprun::runtime::shm
