#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <fstream>

// stdin: for a lone worker, for one of several on request, for none otherwise; with a terminal where there is
// one.

using namespace ddprun;
using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

/// A terminal of our own: what is written to `ours` was typed, what is read from it was shown.
struct Terminal {
  UniqueFd ours{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  UniqueFd theirs;
  std::string shown;

  Terminal() {
    ::grantpt(ours.get());
    ::unlockpt(ours.get());
    theirs.reset(::open(::ptsname(ours.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  }

  void type(const std::string& text) const { REQUIRE(::write(ours.get(), text.data(), text.size()) > 0); }

  /// Reads what is shown until `text` is among it.
  bool shows(const std::string& text) {
    pollfd source{ours.get(), POLLIN, 0};
    while (shown.find(text) == std::string::npos) {
      std::array<char, 4096> buffer;
      if (::poll(&source, 1, 20000) <= 0) return false;
      const ssize_t count = ::read(ours.get(), buffer.data(), buffer.size());
      if (count <= 0) return false;
      shown.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return true;
  }

  [[nodiscard]] LaunchOptions all_streams() const {
    LaunchOptions options;
    options.stdin_fd = options.stdout_fd = options.stderr_fd = theirs.get();
    options.takes_terminal = true;
    return options;
  }
};

LaunchOptions with_stdin(const std::string& path, UniqueFd& holder) {
  holder.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  LaunchOptions options;
  options.stdin_fd = holder.get();
  return options;
}

}  // namespace

TEST_CASE("a lone worker gets stdin as it is") {
  const TempDirectory directory;
  std::ofstream(directory.path() + "/in") << "one\ntwo\n";
  UniqueFd file;
  Launched job(ddprun_command({"--no-python", "/bin/cat"}), with_stdin(directory.path() + "/in", file));
  CHECK(job.wait() == 0);
  CHECK(job.out() == "one\ntwo\n");
}

TEST_CASE("none of several workers gets stdin") {
  const TempDirectory directory;
  std::ofstream(directory.path() + "/in") << "one\n";
  UniqueFd file;
  Launched job(ddprun_command({"--nproc-per-node", "3", "--no-python", "/bin/cat"}),
               with_stdin(directory.path() + "/in", file));
  CHECK(job.wait() == 0);
  CHECK(job.out().empty());
}

TEST_CASE("--stdin gives it to one of several") {
  const TempDirectory directory;
  std::ofstream(directory.path() + "/in") << "one\n";
  UniqueFd file;
  Launched job(ddprun_command({"--nproc-per-node", "3", "--stdin", "1", "--no-python", "/bin/sh", "-c",
                               "while read line; do echo rank $RANK read $line; done"}),
               with_stdin(directory.path() + "/in", file));
  CHECK(job.wait() == 0);
  CHECK(job.out() == "rank 1 read one\n");
}

TEST_CASE("on a terminal --stdin gives that rank a terminal of its own that reads what is typed") {
  Terminal terminal;
  Launched job(
      ddprun_command({"--nproc-per-node", "2", "--stdin", "0", "--no-python", "/bin/sh", "-c",
                      "[ $RANK = 1 ] && exit 0; test -t 0 && test -t 1 && test -t 2 && echo a terminal; "
                      "read line; echo got $line; tty"}),
      terminal.all_streams());
  REQUIRE(terminal.shows("a terminal"));
  terminal.type("hello\n");
  CHECK(terminal.shows("got hello"));
  CHECK(terminal.shows("/dev/pts/"));
  CHECK(job.wait() == 0);
}

TEST_CASE("on a terminal every worker's stdout and stderr are terminals, so progress bars work") {
  Terminal terminal;
  const Gate gate;
  Launched job(
      ddprun_command({"--nproc-per-node", "2", "--no-python", "/bin/sh", "-c",
                      "test -t 1 && test -t 2 && echo rank $RANK has terminals; printf '\\r10%%\\r20%%' "
                      ">&2; read x < " +
                          gate.path()}),
      terminal.all_streams());
  CHECK(terminal.shows("rank 0 has terminals"));
  CHECK(terminal.shows("rank 1 has terminals"));
  CHECK(terminal.shows("\r20%"));
  gate.open();
  CHECK(job.wait() == 0);
}

TEST_CASE("--debug-rank starts that rank under a debugger with the terminal") {
  Terminal terminal;
  Launched job(
      ddprun_command({"--nproc-per-node", "2", "--debug-rank", "1", "/usr/bin/env", "--no-python", "/bin/sh",
                      "-c", "[ $RANK = 0 ] && exit 0; test -t 0 && echo debugging rank $RANK"}),
      terminal.all_streams());
  CHECK(terminal.shows("debugging rank 1"));
  CHECK(job.wait() == 0);
}
