#include "launcher/process/own_descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace ddprun::launcher {

void own_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond ulimit -f fails with EFBIG then
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int access = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", access);
  }
}

Result<rlimit> raise_open_files(std::string_view who, std::size_t needed) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < needed) {
    return Error(
        ErrorCode::kOs,
        fmt::format("{} needs up to {} descriptors, and this process may have {} (ulimit -Hn); raise "
                    "the limit where it was set: ulimit -n, limits.conf, LimitNOFILE= of a service, "
                    "--ulimit nofile of a container",
                    who, needed, before.rlim_max));
  }
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

}  // namespace ddprun::launcher
