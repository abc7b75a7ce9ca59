// A worker that makes itself hard to end. It builds a small family around itself, says "ready" and sleeps:
// children that fork, double-fork into a session of their own, ignore every signal, stop themselves, exec
// with an empty environment, or do all of that at once; a listening port. Every descendant keeps the
// arguments, by which a test finds it.
//
//   hostile_worker TOKEN [exit CODE | kill]     what the leader does once all is set up; without: sleep

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

void ignore_all_signals() {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_IGN);
}

// Runs `live` in a child that says on `ready` when it is about to.
template <class Live>
void make_child(int ready, Live live) {
  if (::fork() != 0) return;
  live(ready);
  sleep_for_ever();
}

void say_ready(int ready) { [[maybe_unused]] const ssize_t written = ::write(ready, "r", 1); }

void live_as_daemon(int ready) {
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ignore_all_signals();
  say_ready(ready);
}

void live_stopped(int ready) {
  say_ready(ready);
  std::raise(SIGSTOP);
}

void live_deaf(int ready) {
  ignore_all_signals();
  say_ready(ready);
}

void listen_somewhere() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::listen(fd, 1);
}

// A child without the job's tag, still in its worker's session.
void live_without_environment(int ready, const char* self, const char* token) {
  const std::string fd = std::to_string(ready);
  std::array<const char*, 5> argv{self, token, "silent", fd.c_str(), nullptr};
  std::array<const char*, 1> environment{nullptr};
  ::execve(self, const_cast<char* const*>(argv.data()), const_cast<char* const*>(environment.data()));
  ::_exit(1);
}

// Sheds parent, session and environment.
void live_escaped(int ready, const char* self, const char* token) {
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  live_without_environment(ready, self, token);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  if (argc == 4 && std::strcmp(argv[2], "silent") == 0) {
    live_deaf(std::atoi(argv[3]));
    sleep_for_ever();
  }
  std::array<int, 2> ready{};
  if (::pipe(ready.data()) != 0) return 71;
  make_child(ready[1], live_as_daemon);
  make_child(ready[1], live_stopped);
  make_child(ready[1], live_deaf);
  make_child(ready[1], [&](int fd) { live_without_environment(fd, "/proc/self/exe", argv[1]); });
  make_child(ready[1], [&](int fd) { live_escaped(fd, "/proc/self/exe", argv[1]); });
  constexpr int kChildren = 5;
  for (int i = 0; i < kChildren; ++i) {
    char byte = 0;
    [[maybe_unused]] const ssize_t count = ::read(ready[0], &byte, 1);
  }
  listen_somewhere();
  std::signal(SIGTERM, SIG_IGN);
  std::printf("ready\n");
  std::fflush(stdout);
  if (argc == 4 && std::strcmp(argv[2], "exit") == 0) return std::atoi(argv[3]);
  if (argc == 3 && std::strcmp(argv[2], "kill") == 0) std::raise(SIGKILL);
  sleep_for_ever();
}
