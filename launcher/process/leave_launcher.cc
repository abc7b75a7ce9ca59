#include "launcher/process/leave_launcher.h"

#include "launcher/process/close_range.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

namespace ddprun::launcher {

void leave_launcher(const char* name, std::vector<int> kept) {
  ::setsid();
  ::prctl(PR_SET_NAME, name);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  std::sort(kept.begin(), kept.end());
  unsigned next = STDERR_FILENO + 1;
  for (const int each : kept) {
    const auto fd = static_cast<unsigned>(each);
    if (fd > next) close_descriptors(next, fd - 1);
    next = std::max(next, fd + 1);
  }
  close_descriptors(next, ~0U);
  [[maybe_unused]] const int moved = ::chdir("/");
}

}  // namespace ddprun::launcher
