#include "tests/support/catch.h"
#include "tests/support/launched.h"
#include "tests/support/skip.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

// Logs on a disk that is full, or that somebody tidies up meanwhile.

using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

/// A file system of 256 KiB; needs root.
struct SmallDisk {
  TempDirectory directory;
  bool is_mounted = ::mount("none", directory.path().c_str(), "tmpfs", 0, "size=256k") == 0;
  ~SmallDisk() {
    if (is_mounted) ::umount2(directory.path().c_str(), MNT_DETACH);
  }
};

}  // namespace

TEST_CASE("a full disk under the logs does not end the job, and the console still shows everything") {
  const SmallDisk disk;
  if (!disk.is_mounted) return skipped("needs root to mount a small disk");
  Launched job(ddprun_command({"--nproc-per-node", "2", "--log-dir", disk.directory.path(), "--tee", "1",
                               "--no-python", program("line_writer"), "20000"}));
  CHECK(job.wait() == 0);
  CHECK(std::count(job.out().begin(), job.out().end(), '\n') == 40000);
  CHECK_THAT(job.err(), Contains("No space left on device; the job goes on, its output is still shown"));
}

TEST_CASE("a failure on a full disk still has its report and its exit code") {
  const SmallDisk disk;
  if (!disk.is_mounted) return skipped("needs root to mount a small disk");
  Launched job(
      ddprun_command({"--log-dir", disk.directory.path(), "--tee", "3", "--no-python", "/bin/sh", "-c",
                      "dd if=/dev/zero bs=65536 count=16 2>/dev/null; echo broken >&2; exit 5"}));
  CHECK(job.wait() == 5);
  CHECK_THAT(job.err(), Contains("| broken"));
}

TEST_CASE("a log directory that vanishes is made again for the next generation") {
  const TempDirectory logs;
  Launched job(ddprun_command(
      {"--log-dir", logs.path(), "--rdzv-id", "job", "--tee", "1", "--max-restarts", "1", "--no-python",
       "/bin/sh", "-c",
       "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; rm -rf " +
           logs.path() + "/job_*; exit 1"}));
  CHECK(job.wait() == 0);
  CHECK_THAT(job.out(), Contains("attempt 0\n") && Contains("attempt 1\n"));
  Launched shown({"/bin/sh", "-c", "cat " + logs.path() + "/job_*/attempt_1/0/stdout.log"});
  CHECK(shown.wait() == 0);
  CHECK(shown.out() == "attempt 1\n");
}
