#include "rendezvous/base/unique_fd.h"

#include <unistd.h>

namespace ddprun {

void UniqueFd::reset(int fd) {
  // close() is not retried on EINTR: on Linux the descriptor is gone either way (close(2)).
  if (fd_ >= 0 && fd_ != fd) ::close(fd_);
  fd_ = fd;
}

}  // namespace ddprun
