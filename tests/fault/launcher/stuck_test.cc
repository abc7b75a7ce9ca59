#include "tests/support/catch.h"
#include "tests/support/launched.h"
#include "tests/support/skip.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

// A worker that does not even end on SIGKILL: in real life one that waits for a dead disk or driver, here one
// in a frozen cgroup.

using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

/// A version 1 freezer, in which SIGKILL has to wait; needs root and that hierarchy.
struct Freezer {
  std::string path = "/sys/fs/cgroup/freezer/ddprun-test-" + std::to_string(::getpid());
  bool is_there = ::mkdir(path.c_str(), 0755) == 0;

  ~Freezer() {
    if (!is_there) return;
    write("freezer.state", "THAWED");
    eventually(std::chrono::seconds(5), [&] { return ::rmdir(path.c_str()) == 0; });
  }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path + "/" + file) << text;
  }
};

}  // namespace

TEST_CASE("a worker stuck in the kernel is named, and the launcher still leaves") {
  const Freezer freezer;
  if (!freezer.is_there) return skipped("needs root and a version 1 cgroup freezer");
  Launched job(ddprun_command({"--nproc-per-node", "2", "--shutdown-timeout", "1", "--no-python", "/bin/sh",
                               "-c", "echo $RANK $$$$; exec sleep 1000"}));
  for (int i = 0; i < 2; ++i) {
    const std::string line = job.read_line();
    if (line.front() == '1') freezer.write("cgroup.procs", line.substr(2));
  }
  freezer.write("freezer.state", "FROZEN");
  REQUIRE(eventually(std::chrono::seconds(5),
                     [&] { return read_file(freezer.path + "/freezer.state") == "FROZEN\n"; }));
  job.signal(SIGTERM);
  CHECK(job.wait(std::chrono::seconds(20)) == 128 + SIGTERM);
  CHECK_THAT(job.err(), Contains("did not end within 5.0 s of SIGKILL;") && Contains("rank 1 (pid ") &&
                            Contains("is in state D (disk sleep)"));
}

TEST_CASE(
    "what is stuck in the group of a worker that has ended forbids a restart, and only that is called "
    "stuck") {
  const Freezer freezer;
  if (!freezer.is_there) return skipped("needs root and a version 1 cgroup freezer");
  const Gate gate;
  Launched job(ddprun_command({"--nproc-per-node", "2", "--max-restarts", "1", "--shutdown-timeout", "1",
                               "--no-python", "/bin/bash", "-c",
                               "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
                               "[ $RANK = 1 ] || { read x < " +
                                   gate.path() + "; exit 9; }; sleep 1000 & echo $!; exec sleep 1001"}));
  freezer.write("cgroup.procs", job.read_line());
  freezer.write("freezer.state", "FROZEN");
  REQUIRE(eventually(std::chrono::seconds(5),
                     [&] { return read_file(freezer.path + "/freezer.state") == "FROZEN\n"; }));
  gate.open();
  CHECK(job.wait() == 9);
  CHECK_THAT(job.err(),
             !Contains("restart 1 of 1") && !Contains("did not end within") &&
                 Contains("a process that the workers left behind does not end on SIGKILL: pid ") &&
                 Contains("(sleep), in state D (disk sleep)") && !Contains("was ended: pid"));
}
