#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>

// A console that takes nothing, or goes away, is no worker's problem.

using namespace ddprun;
using namespace ddprun::testing;

namespace {

struct StuckConsole {
  UniqueFd read_end;
  UniqueFd write_end;

  StuckConsole() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  [[nodiscard]] LaunchOptions as_stdout() const {
    LaunchOptions options;
    options.stdout_fd = write_end.get();
    return options;
  }
};

/// Resident memory of a process, in MiB.
long resident_mib(pid_t pid) {
  std::istringstream fields(read_file("/proc/" + std::to_string(pid) + "/statm"));
  long size = 0;
  long resident = 0;
  fields >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

}  // namespace

TEST_CASE("a stuck console blocks no worker, costs no memory, and gets every byte when it is read again") {
  StuckConsole console;
  const TempDirectory directory;
  const std::string done = directory.path() + "/done";
  constexpr int kMebibytes = 64;
  const Gate gate;
  Launched job(ddprun_command({"--log-dir", directory.path(), "--no-python", "/bin/sh", "-c",
                               "echo ready >&2; read line < " + gate.path() +
                                   "; dd if=/dev/zero bs=1048576 count=" + std::to_string(kMebibytes) +
                                   " 2>/dev/null; echo > " + done + "; exec sleep 1000"}),
               console.as_stdout());
  job.wait_for_err("ready");
  const long before = resident_mib(job.pid());
  gate.open();
  // The worker has written everything although nobody has read a byte of it.
  REQUIRE(eventually(std::chrono::seconds(20), [&] { return ::access(done.c_str(), F_OK) == 0; }));
  CHECK(resident_mib(job.pid()) < before + kMebibytes / 2);
  console.write_end.reset();
  std::size_t total = 0;
  std::array<char, 65536> buffer;
  while (total < kMebibytes * std::size_t{1048576}) {
    const ssize_t count = ::read(console.read_end.get(), buffer.data(), buffer.size());
    REQUIRE(count > 0);
    total += static_cast<std::size_t>(count);
  }
  CHECK(total == kMebibytes * std::size_t{1048576});
  job.signal(SIGTERM);
  CHECK(job.wait() == 128 + SIGTERM);
}

TEST_CASE("a job that ends with a stuck console waits for a reader and loses nothing") {
  StuckConsole console;
  Launched job(ddprun_command({"--no-python", "/bin/sh", "-c",
                               "dd if=/dev/zero bs=1048576 count=4 2>/dev/null; exit 7"}),
               console.as_stdout());
  console.write_end.reset();
  std::size_t total = 0;
  std::array<char, 65536> buffer;
  for (ssize_t count = 1; count > 0; total += static_cast<std::size_t>(count)) {
    count = ::read(console.read_end.get(), buffer.data(), buffer.size());
    REQUIRE(count >= 0);
  }
  CHECK(total == 4 * std::size_t{1048576});
  CHECK(job.wait() == 7);
}

TEST_CASE("a console that nobody reads any more does not end the job") {
  StuckConsole console;
  const TempDirectory logs;
  const Gate gate;
  Launched job(
      ddprun_command({"--log-dir", logs.path(), "--tee", "1", "--rdzv-id", "job", "--no-python", "/bin/sh",
                      "-c", "for i in 1 2 3 4 5; do read x < " + gate.path() + "; echo line $i; done"}),
      console.as_stdout());
  console.write_end.reset();
  console.read_end.reset();
  gate.open();
  CHECK(job.wait() == 0);
  Launched shown({"/bin/sh", "-c", "cat " + logs.path() + "/job_*/attempt_0/0/stdout.log"});
  CHECK(shown.wait() == 0);
  CHECK(shown.out() == "line 1\nline 2\nline 3\nline 4\nline 5\n");
}
