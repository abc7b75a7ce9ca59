// A file system that hangs, for LD_PRELOAD: open(2) of a path that ends with $HANGING_OPEN opens the FIFO
// $HANGING_OPEN_UNTIL first, and goes on when that has been closed at its other end.

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <string_view>

extern "C" int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const char* const end = std::getenv("HANGING_OPEN");
  const char* const until = std::getenv("HANGING_OPEN_UNTIL");
  if (end != nullptr && until != nullptr && std::string_view(path).ends_with(end)) {
    const auto fifo = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, until, O_RDONLY | O_CLOEXEC));
    char byte = 0;
    [[maybe_unused]] const ssize_t count = ::read(fifo, &byte, 1);
    ::close(fifo);
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
