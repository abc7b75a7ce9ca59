#include "launcher/process/lifeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

// Above those that shells and scripts name.
constexpr int kFirst = 100;

}  // namespace

std::optional<Lifeline> Lifeline::make() {
  std::optional<Pipe> pipe = open_pipe(O_NONBLOCK);
  if (!pipe) return std::nullopt;
  return Lifeline(std::move(*pipe));
}

// The owner and the signal belong to the open file, so each worker opens one of its own: by the name that
// /proc has for a descriptor, written without anything that allocates.
int hold_lifeline(int fd) {
  if (fd < 0 || fd > 99999) return -1;
  std::array<char, 32> path{"/proc/self/fd/"};
  constexpr std::size_t kPrefix = 14;
  std::size_t digits = 1;
  for (int rest = fd / 10; rest > 0; rest /= 10) ++digits;
  for (std::size_t i = digits; i > 0; --i, fd /= 10) path[kPrefix + i - 1] = static_cast<char>('0' + fd % 10);
  const int opened = ::open(path.data(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) return -1;
  const int held = ::fcntl(opened, F_DUPFD, kFirst);
  const bool is_armed = held >= 0 && ::fcntl(held, F_SETOWN, -::getpid()) == 0 &&
                        ::fcntl(held, F_SETSIG, SIGTERM) == 0 &&
                        ::fcntl(held, F_SETFL, O_NONBLOCK | O_ASYNC) == 0;
  return is_armed ? held : -1;
}

}  // namespace ddprun::launcher
