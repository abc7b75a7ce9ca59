#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

// What a worker finds when it starts.

using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

std::string run_one(const std::string& script) {
  Launched job(ddprun_command({"--no-python", "/bin/sh", "-c", script}));
  REQUIRE(job.wait() == 0);
  return job.out();
}

}  // namespace

TEST_CASE("a worker has no descriptor but stdin, stdout, stderr and its lifeline") {
  // ls itself opens the directory as descriptor 3.
  CHECK(run_one("exec ls /proc/self/fd") == "0\n1\n100\n2\n3\n");
}

TEST_CASE("a worker has an empty signal mask and default dispositions") {
  LaunchOptions options;
  options.ignores_hangup = true;
  Launched job(ddprun_command({"--no-python", "/bin/grep", "-E", "SigBlk|SigIgn", "/proc/self/status"}),
               options);
  REQUIRE(job.wait() == 0);
  CHECK(job.out() == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("a worker leads a session of its own") {
  CHECK(run_one("set -- $(cat /proc/self/stat); [ \"$6\" = $$$$ ] && echo leader") == "leader\n");
}

TEST_CASE("a worker has the caller's limit of open files, not the launcher's raised one") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  CHECK(run_one("ulimit -n") == std::to_string(limit.rlim_cur) + "\n");
}

TEST_CASE("a worker carries the job's tag, by which the guard finds it, and the launcher does not") {
  const std::string tag = run_one("echo $DDPRUN_JOB_TAG; grep -c DDPRUN_JOB_TAG /proc/$PPID/environ || true");
  CHECK_THAT(tag, Contains("ddprun-"));
  CHECK_THAT(tag, Contains("\n0\n"));
}

TEST_CASE("workers of a nested job carry both tags") {
  LaunchOptions options;
  options.environment["DDPRUN_JOB_TAG"] = "ddprun-outer";
  Launched job(ddprun_command({"--no-python", "/bin/sh", "-c", "echo $DDPRUN_JOB_TAG"}), options);
  REQUIRE(job.wait() == 0);
  CHECK_THAT(job.out(), Contains("ddprun-outer:ddprun-"));
}

TEST_CASE("a worker dies with a launcher that is killed") {
  const std::string token = "token-" + std::to_string(::getpid()) + "-orphan";
  Launched job(ddprun_command(
      {"--nproc-per-node", "2", "--no-python", "/bin/sh", "-c", "echo up; exec sleep 1000", token}));
  job.read_line();
  job.read_line();
  job.signal(SIGKILL);
  CHECK(job.wait() == 128 + SIGKILL);
  CHECK(eventually(std::chrono::seconds(10), [&] { return processes_with(token).empty(); }));
}
