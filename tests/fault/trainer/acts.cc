#include "tests/fault/trainer/acts.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace ddprun::testing {
namespace {

void be_stuck() {
  std::printf("stuck %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  ::raise(SIGSTOP);
}

void hold() {
  static std::atomic<bool> has_held = false;
  if (has_held.exchange(true)) return;
  std::printf("holding %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  const char* const fifo = std::getenv("FAULT_FIFO");
  ::close(::open(fifo == nullptr ? "" : fifo, O_RDONLY | O_CLOEXEC));
}

}  // namespace

void act(const std::string& what) {
  if (what == "throws") throw std::runtime_error("sample 17 of this rank is broken");
  if (what == "bad_alloc") throw std::bad_alloc();
  if (what == "throws_int") throw 17;
  // Whoever it was that hung up, it was none of the ranks.
  if (what == "system_error")
    throw std::system_error(ECONNRESET, std::generic_category(), "reading from the data server");
  if (what == "kill") ::kill(::getpid(), SIGKILL);
  if (what == "segv") ::raise(SIGSEGV);
  if (what == "fpe") ::raise(SIGFPE);
  if (what == "bus") ::raise(SIGBUS);
  if (what == "abort") std::abort();
  if (what == "terminate") std::terminate();
  if (what == "thread_throws") std::thread([] { throw std::runtime_error("a helper thread failed"); }).join();
  if (what == "joinable") std::thread([] { ::pause(); });
  if (what == "exit_0") std::exit(0);
  if (what == "exit_3") std::exit(3);
  if (what == "_exit_0") ::_exit(0);
  if (what == "_exit_7") ::_exit(7);
  if (what == "hold") return hold();
  if (what == "stuck") be_stuck();
  std::fprintf(stderr, "no such fault: %s\n", what.c_str());
  ::_exit(99);
}

}  // namespace ddprun::testing
