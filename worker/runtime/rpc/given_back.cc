#include "worker/runtime/rpc/given_back.h"

namespace ddprun::runtime {

void GivenBack::add(const Fork& fork) {
  const std::lock_guard lock(mutex_);
  if (!forks_.insert(fork).second) return;
  in_order_.push_back(fork);
  if (in_order_.size() <= at_most_) return;
  forks_.erase(in_order_.front());
  in_order_.pop_front();
}

bool GivenBack::take(const Fork& fork) {
  const std::lock_guard lock(mutex_);
  return forks_.erase(fork) > 0;
}

}  // namespace ddprun::runtime
