// Waits in a call for longer than a hang is waited for, and fails where that ends with an error because it was
// stopped: by default in epoll_wait(2), as a program does that serves a socket; with an argument in read(2) of a
// socket with a time-out. A stop by ptrace ends both with EINTR.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace {

constexpr int kSeconds = 6;

int wait_for_events() {
  const int epoll = ::epoll_create1(0);
  epoll_event event{};
  if (::epoll_wait(epoll, &event, 1, kSeconds * 1000) == 0) return 0;
  std::perror("epoll_wait");
  return 1;
}

int read_socket() {
  int ends[2] = {-1, -1};
  const timeval limit{kSeconds, 0};
  char byte = 0;
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::read(ends[0], &byte, 1) < 0 && errno == EAGAIN) return 0;
  std::perror("read");
  return 1;
}

}  // namespace

int main(int count, char**) { return count > 1 ? read_socket() : wait_for_events(); }
