#include "rendezvous/base/print.h"

#include "rendezvous/base/unique_fd.h"
#include "tests/support/catch.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <string>
#include <thread>

using namespace ddprun;

namespace {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;

  explicit Pipe(int flags) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | flags) == 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
};

}  // namespace

TEST_CASE("a non-blocking descriptor gets the whole text, and no CPU is used while it is full") {
  Pipe pipe(O_NONBLOCK);
  const std::string text(1024 * 1024, 'x');
  std::size_t read = 0;
  const std::clock_t before = std::clock();
  std::thread reader([&] {
    std::array<char, 4096> buffer;
    while (read < text.size()) {
      const ssize_t count = ::read(pipe.read_end.get(), buffer.data(), buffer.size());
      if (count > 0) read += static_cast<std::size_t>(count);
      if (count < 0) ::usleep(1000);
    }
  });
  CHECK(print_all(pipe.write_end.get(), text));
  reader.join();
  CHECK(read == text.size());
  CHECK(std::clock() - before < CLOCKS_PER_SEC);
}

TEST_CASE("a reader that is gone is an answer and not a signal") {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe(0);
  pipe.read_end.reset();
  CHECK_FALSE(print_all(pipe.write_end.get(), "text"));
}
