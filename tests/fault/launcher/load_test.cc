#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <unistd.h>

#include <chrono>
#include <map>
#include <sstream>
#include <vector>

// Many workers, many lines.

using namespace ddprun::testing;
using Catch::Matchers::Contains;

namespace {

/// What line_writer must have written as `rank`.
std::string expected_lines(int rank, int count) {
  std::string text;
  for (int line = 0; line < count; ++line) {
    text += std::to_string(rank) + ":" + std::to_string(line) + ":" +
            std::string(static_cast<std::size_t>(line * 7 % 61), static_cast<char>('a' + line % 26)) + "\n";
  }
  return text;
}

/// The console's lines, put together again by the rank each begins with.
std::map<int, std::string> by_rank(const std::string& text) {
  std::map<int, std::string> streams;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) streams[std::stoi(line)] += line + "\n";
  return streams;
}

}  // namespace

TEST_CASE("64 workers write a million lines: none is lost, torn or out of order, on console or disk") {
  constexpr int kWorkers = 64;
  constexpr int kLines = 15625;
  const TempDirectory logs;
  Launched job(ddprun_command({"--nproc-per-node", "64", "--log-dir", logs.path(), "--rdzv-id", "job",
                               "--no-python", program("line_writer"), std::to_string(kLines)}));
  REQUIRE(job.wait(std::chrono::seconds(120)) == 0);
  const std::map<int, std::string> console = by_rank(job.out());
  for (int rank = 0; rank < kWorkers; ++rank) {
    INFO("rank " << rank);
    REQUIRE((console.at(rank) == expected_lines(rank, kLines)));
  }
}

TEST_CASE("the same with tee: every file is byte for byte what its worker wrote") {
  constexpr int kWorkers = 64;
  constexpr int kLines = 15625;
  const TempDirectory logs;
  Launched job(
      ddprun_command({"--nproc-per-node", "64", "--log-dir", logs.path(), "--rdzv-id", "job", "--tee", "2",
                      "--no-python", program("line_writer"), std::to_string(kLines), "stderr"}));
  REQUIRE(job.wait(std::chrono::seconds(120)) == 0);
  Launched found({"/bin/sh", "-c", "echo " + logs.path() + "/job_*/attempt_0"});
  REQUIRE(found.wait() == 0);
  const std::string attempt = found.out().substr(0, found.out().size() - 1);
  for (int rank = 0; rank < kWorkers; ++rank) {
    INFO("rank " << rank);
    REQUIRE(
        (read_file(attempt + "/" + std::to_string(rank) + "/stderr.log") == expected_lines(rank, kLines)));
  }
}

TEST_CASE("a thousand workers run and succeed") {
  Launched job(
      ddprun_command({"--nproc-per-node", "1000", "--log-dir", "/dev/null", "--no-python", "/bin/true"}));
  CHECK(job.wait(std::chrono::seconds(60)) == 0);
}

TEST_CASE("one failure among a thousand stops them all and is the root cause") {
  const std::string token = "token-" + std::to_string(::getpid()) + "-thousand";
  Launched job(ddprun_command({"--nproc-per-node", "1000", "--log-dir", "/dev/null", "--no-python", "/bin/sh",
                               "-c", "[ $RANK = 777 ] && exit 42; exec sleep 1000", token}));
  CHECK(job.wait(std::chrono::seconds(60)) == 42);
  CHECK_THAT(job.err(), Contains("rank 777"));
  CHECK(processes_with(token).empty());
}
