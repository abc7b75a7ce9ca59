#include "launcher/why/desk/quiet_since.h"

#include <sys/mman.h>

#include <new>

namespace ddprun::launcher::why {
namespace {

constexpr double kNotTold = -1;

}  // namespace

static_assert(std::atomic<double>::is_always_lock_free);  // a lock would be each process's own

QuietSince::QuietSince() {
  void* const memory =
      ::mmap(nullptr, sizeof *at_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) at_ = new (memory) std::atomic<double>(kNotTold);
}

QuietSince::~QuietSince() {
  if (at_ != nullptr) ::munmap(at_, sizeof *at_);
}

void QuietSince::tell(double at_s) {
  if (at_ != nullptr) at_->store(at_s);
}

void QuietSince::forget() { tell(kNotTold); }

std::optional<double> QuietSince::told() const {
  const double at_s = at_ != nullptr ? at_->load() : kNotTold;
  return at_s < 0 ? std::nullopt : std::optional(at_s);
}

}  // namespace ddprun::launcher::why
