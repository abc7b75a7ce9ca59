#pragma once

#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::launcher {

/// close_range(2) of the descriptors `first` to `last`: the kernel's, because the C library's function is younger
/// than the libraries that ddprun runs with. Async-signal-safe. Returns 0, or -1 with errno: ENOSYS where the kernel
/// lacks it.
inline long close_descriptors(unsigned first, unsigned last) {
  return ::syscall(__NR_close_range, first, last, 0U);
}

}  // namespace ddprun::launcher
