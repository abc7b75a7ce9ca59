#include "tests/support/catch.h"
#include "tests/support/launched.h"

#include <csignal>
#include <cstdlib>
#include <random>

using namespace ddprun::testing;
using Catch::Matchers::Contains;

TEST_CASE("a job one of whose ranks is killed recovers at the first restart, every time", "[repeat]") {
  const char* wanted = std::getenv("DDPRUN_RESTARTS");
  const int jobs = wanted == nullptr ? 10 : std::atoi(wanted);
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < jobs; ++round) {
    const std::string token = "token-" + std::to_string(::getpid()) + "-restart-" + std::to_string(round);
    Launched job(
        ddprun_command({"--nproc-per-node", "3", "--max-restarts", "3", "--no-python", "/bin/sh", "-c",
                        "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; echo $$$$; exec sleep 1000", token}));
    std::vector<pid_t> workers;
    for (int rank = 0; rank < 3; ++rank) workers.push_back(std::stoi(job.read_line()));
    ::kill(workers[std::uniform_int_distribution<std::size_t>(0, 2)(random)], SIGKILL);
    INFO("round " << round);
    REQUIRE(job.wait() == 0);
    CHECK_THAT(job.err(), Contains("restart 1 of 3") && !Contains("restart 2 of 3"));
    CHECK(processes_with(token).empty());
  }
}
