// Waits in epoll_wait(2) for longer than a hang is waited for, as a program does that serves a socket, and fails where that
// ends with an error: a stop by ptrace ends it with EINTR.
#include <sys/epoll.h>

#include <cstdio>

int main() {
  constexpr int kMilliseconds = 6000;
  const int epoll = ::epoll_create1(0);
  epoll_event event{};
  if (::epoll_wait(epoll, &event, 1, kMilliseconds) == 0) return 0;
  std::perror("epoll_wait");
  return 1;
}
